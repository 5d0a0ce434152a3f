import PipeMachines
import PipeWire

/// Follows one node of a running topology for a view, and sends it events, in tasks of its own.
package struct ViewFeed: Sendable {
  enum Update: Sendable {
    case found(TopologyDirectory)
    case change(StateChange)
    case ended
    case failed(message: String, code: Int32)
  }

  let client: TopologyClient
  let node: String
  private let states: WatchedStates
  /// How often the orchestrator is asked whether the node runs.
  private static let pause: Duration = .milliseconds(250)

  package init(client: TopologyClient, node: String, _ states: WatchedStates) {
    self.client = client
    self.node = node
    self.states = states
  }

  /// Tells what happens, until the topology goes down, or the task is cancelled. Each call must
  /// return before the next is made, so that changes that come too fast are counted, not queued.
  func follow(_ tell: @escaping @Sendable (Update) async -> Void) async {
    do {
      let directory = try await client.directory(fresh: false)
      let information = try client.node(node, in: directory)
      guard information.kind != .monitor else {
        return await tell(
          .failed(message: "node '\(node)' is a monitor and has no states", code: 2))
      }
      await tell(.found(directory))
      // An answer of a composite has no state: the next key is for the one that is told, at once.
      let states = try await client.states(
        of: [node], information.kind == .composite ? .every : self.states)
      await withTaskGroup { group in
        group.addTask {
          for await change in states { await tell(.change(change)) }
          await tell(.ended)
        }
        group.addTask { await look(tell) }
        await group.next()
        group.cancelAll()
      }
    } catch {
      let code = (error as? TopologyClientError)?.exitCode ?? 1
      await tell(.failed(message: "\(error)", code: code))
    }
  }

  private func look(_ tell: @Sendable (Update) async -> Void) async {
    while !Task.isCancelled {
      do {
        try await Task.sleep(for: Self.pause)
        await tell(.found(try await client.directory(fresh: false)))
      } catch is CancellationError {
        return
      } catch {
        // Where the orchestrator is gone, the states end, too; one that hangs is told of here.
        return await tell(.ended)
      }
    }
  }

  func send(_ event: JSONValue) async -> ViewSession.Sent {
    do {
      let directory = try await client.directory(fresh: false)
      if try client.node(node, in: directory).kind == .composite {
        return Self.sent(try await client.synchronize(node, json: event))
      }
      switch try await client.send(node, json: event) {
      case .moved(let version, let state): return .moved(version: version, state: state)
      case .done: return .committed
      case .refused(.noTransition, _): return .refused("no transition")
      case .refused(.guard, _): return .refused("the guard said no")
      case .refused(.thrown(let error), _): return .refused(error)
      case .refused(.asynchronous, _): return .refused("its transition is asynchronous")
      case .refused(.overdue, _): return .refused("its transition took longer than it may")
      }
    } catch {
      return .failed("\(error)")
    }
  }

  private static func sent(_ reply: SynchronizedReply) -> ViewSession.Sent {
    switch reply {
    case .committed: .committed
    case .refused(let withholdings):
      .refused(withholdings.map(\.description).joined(separator: "; "))
    case .busy(let names): .failed("busy: \(names.joined(separator: ", ")); try again")
    case .unavailable(let name): .failed("'\(name)' does not run; nothing was applied")
    case .unknown: .failed("what became of it is not known yet")
    }
  }

  /// Why the states have ended, and what to do.
  var reasonOfEnd: String {
    client.problemAtEnd?.description ?? "topology '\(client.topology)' has gone down"
  }
}
