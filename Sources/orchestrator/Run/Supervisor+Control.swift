import FoundationEssentials
import Glibc
import PipeRuntime
import PipeSupervision

extension Supervisor {
  func readControl() {
    while control.receive({ peer, bytes in
      do {
        let header = try FrameHeader(bytes)
        let body = Data(bytes[FrameHeader.byteCount...])
        if let node = nodeName(of: peer) {
          try handle(header, body, from: node)
        } else if header.kind == .command {
          take(header, body, from: peer)
        } else {
          throw FrameError.kind(header.kind.rawValue)
        }
      } catch {
        garbage += 1
        if garbage.isWorthLogging {
          reporter.warning("passed over \(error) on the control socket (\(garbage) so far)")
        }
      }
    }) {}
  }

  /// Sends a frame to a node; one that is not connected misses it, and its timeouts see to that.
  @discardableResult
  func send(_ header: FrameHeader, body: [UInt8] = [], to node: String) -> Socket.Sent {
    control.send(header, body: body, to: Array(WireName.node(node).utf8))
  }

  func sendConfiguration(to name: String) {
    guard let node = plan[name],
      let body = try? JSONEncoder().encode(node.configuration)
    else { return }
    send(FrameHeader(.configure), body: Array(body), to: name)
  }

  private func nodeName(of peer: [UInt8]) -> String? {
    let prefix = Array(WireName.node("").utf8)
    guard peer.starts(with: prefix) else { return nil }
    let name = String(decoding: peer.dropFirst(prefix.count), as: UTF8.self)
    return records[name] == nil ? nil : name
  }

  private func handle(_ header: FrameHeader, _ body: Data, from name: String) throws {
    // What an earlier incarnation had sent before it died is stale.
    guard header.number == processes[name]?.incarnation else { return }
    switch header.kind {
    case .hello:
      let hello = try JSONDecoder().decode(NodeHello.self, from: body)
      if let setback = hello.setback {
        handle(.node(name, .hello(problem: nil)))
        handle(.node(name, .complained(reason: setback)))
      } else if case .adopting = lifecycle[name]?.state {
        answered(hello, by: name)
      } else if hello.phase == .configured, hello.problem == nil {
        // It has connected anew: what either had said last may have gone down with the connection before.
        handle(.node(name, .ready))
      } else {
        handle(.node(name, .hello(problem: hello.problem ?? problem(with: hello, of: name))))
      }
    case .ready: handle(.node(name, .ready))
    case .status:
      // An input of its own would redraw for each of many nodes; a sign of life changes nobody.
      _ = lifecycle.handle(.node(name, .heartbeat), at: .now)
      take(status: body, of: name)
      answered(name, survey: header.sequence)
    case .stopped:
      if body.isEmpty {
        processes[name]?.saidGoodbye = true
      } else {
        handle(.node(name, .complained(reason: String(decoding: body, as: UTF8.self))))
      }
    default: throw FrameError.kind(header.kind.rawValue)
    }
  }

  /// One that cannot be read is told once for each process: the next heartbeat brings the same.
  private func take(status body: Data, of name: String) {
    do {
      records[name]?.status = try NodeStatus(reading: body)
      records[name]?.statusProblem = nil
    } catch {
      records[name]?.status = nil
      records[name]?.statusProblem = error
      guard records[name]?.isMisreporting == false else { return }
      records[name]?.isMisreporting = true
      let report = NodeReport.misreporting(error)
      note(report, of: name)
      reporter.report(node: name, report)
    }
  }

  func problem(with hello: NodeHello, of name: String) -> String? {
    if hello.node != name {
      return "it calls itself '\(hello.node)'"
    }
    if hello.pid != processes[name]?.pid {
      return "its hello came from process \(hello.pid)"
    }
    guard let expected = records[name]?.description else {
      records[name]?.description = hello.description
      return nil
    }
    return hello.description == expected
      ? nil
      : "its machine differs from the one that was checked: the program was rebuilt meanwhile. "
        + "'orchestrator apply' takes it up"
  }
}
