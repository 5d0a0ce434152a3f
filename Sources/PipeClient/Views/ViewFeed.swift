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
      let delivery = try await client.deliver(event, to: node)
      // What a node of a composite takes by itself has a state of that node.
      if delivery.recipient == node, case .node(.moved(let version, let state)) = delivery.outcome {
        return .moved(version: version, state: state)
      }
      if delivery.isTaken { return .committed }
      return delivery.refusal.map { .refused($0) } ?? .failed(delivery.wording)
    } catch {
      return .failed("\(error)")
    }
  }

  /// Why the states have ended, and what to do.
  var reasonOfEnd: String {
    client.problemAtEnd?.description ?? "topology '\(client.topology)' has gone down"
  }
}
