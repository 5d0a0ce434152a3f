import Glibc
import PipeRuntime

/// The process of a node, and what it writes.
final class NodeProcess {
  var child: ChildProcess
  let incarnation: UInt64
  let capture: OutputCapture
  /// The pipes that are still read.
  var registrations: [LogStream: PollLoop.Registration] = [:]

  init(child: ChildProcess, incarnation: UInt64, capture: OutputCapture) {
    self.child = child
    self.incarnation = incarnation
    self.capture = capture
  }

  /// The pipes of what it writes.
  var pipes: [(stream: LogStream, descriptor: Int32)] {
    [(.out, child.output), (.err, child.error)]
  }
}

extension Supervisor {
  func spawn(_ name: String, incarnation: UInt64) -> NodeLifecycle.Input {
    guard let node = plan[name], let log = logs[name] else {
      return .spawnFailed(reason: "there is no such node")
    }
    let arguments = NodeArguments(
      topology: plan.topology, node: name, content: node.content, control: plan.control,
      inbox: node.information.inbox, feed: node.information.feed, incarnation: incarnation,
      journal: node.journal)
    do {
      let child = try ChildProcess.spawn(
        ChildCommand(
          path: node.information.program, arguments: arguments.arguments,
          environment: node.environment))
      let process = NodeProcess(
        child: child, incarnation: incarnation, capture: OutputCapture(writer: log))
      processes[name] = process
      records[name]?.startedAt = WallClock.nanoseconds
      records[name]?.status = nil
      for (stream, descriptor) in process.pipes {
        process.registrations[stream] = loop.add(descriptor: descriptor) {
          [unowned self, unowned process] in
          read(process, of: name, stream, descriptor)
        }
      }
      return .spawned(pid: child.pid)
    } catch {
      return .spawnFailed(reason: "\(error)")
    }
  }

  /// Reads what waits in one of a node's pipes; stops watching it at its end.
  private func read(
    _ process: NodeProcess, of name: String, _ stream: LogStream, _ descriptor: Int32
  ) {
    let drained = process.capture.drain(descriptor, as: stream)
    for line in drained.lines { reporter.line(node: name, stream, line) }
    tell(drained.notice, of: name)
    if !drained.isOpen, let registration = process.registrations.removeValue(forKey: stream) {
      loop.remove(registration)
    }
  }

  /// Takes the exit status of each child that has ended, after the last of what it wrote.
  func reapChildren() {
    for (name, process) in processes {
      guard let exit = process.child.reap() else { continue }
      for (stream, descriptor) in process.pipes where process.registrations[stream] != nil {
        read(process, of: name, stream, descriptor)
      }
      for registration in process.registrations.values { loop.remove(registration) }
      process.child.closePipes()
      processes.removeValue(forKey: name)
      if !exit.isSuccess { records[name]?.lastLines = process.capture.recentLines }
      handle(.node(name, .exited(exit)))
    }
  }

  /// Writes a line of the supervisor's into a node's log.
  func note(_ line: String, in name: String) {
    tell(logs[name]?.write([line], from: .note), of: name)
  }

  private func tell(_ notice: LogWriter.Notice?, of name: String) {
    switch notice {
    case .failing(let error):
      reporter.warning(
        "the log of node '\(name)' cannot be written, and its lines are lost: \(error)")
    case .recovered(let count):
      reporter.warning(
        "the log of node '\(name)' is written again; \(count) lines were lost")
    case nil: break
    }
  }
}
