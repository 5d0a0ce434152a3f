import PipeClient
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// A topology by name, whether it runs already or will run later. It is attached to again after
/// each restart.
package actor LiveTopology: SnapshotSource {
  /// The topology's name.
  package nonisolated let name: String
  private let target: TopologyTarget
  private var client: TopologyClient?
  /// The names of the states, by machine.
  private var states: [String: [String]] = [:]
  /// The snapshot in progress, which is shared by all requests that arrive before it is complete.
  private var pendingSnapshot: Task<TopologySnapshot, Never>?

  /// - Parameter target: A topology on this host must have a name.
  package init(_ target: TopologyTarget, name: String) {
    self.target = target
    self.name = name
  }

  deinit { client?.close() }

  package func snapshot() async -> TopologySnapshot {
    if let pendingSnapshot { return await pendingSnapshot.value }
    let pendingSnapshot = Task { await readSnapshot() }
    self.pendingSnapshot = pendingSnapshot
    defer { self.pendingSnapshot = nil }
    return await pendingSnapshot.value
  }

  private func readSnapshot() async -> TopologySnapshot {
    do {
      let client = try attachedClient()
      let directory = try await client.directory()
      await describe(directory, client)
      var snapshot = TopologySnapshot(topology: name, directory: .success(directory))
      snapshot.states = states
      // Process ids of another host mean other processes on this one.
      for pid in directory.pids where client.remote == nil {
        snapshot.usage[pid] = ProcessUsage(pid: pid)
      }
      return snapshot
    } catch {
      // The next snapshot attaches again, because the topology may have restarted with other
      // machines.
      client?.close()
      client = nil
      states = [:]
      return TopologySnapshot(
        topology: name, directory: .failure(TopologySnapshot.UnavailableError("\(error)")))
    }
  }

  private func attachedClient() throws -> TopologyClient {
    if let client { return client }
    let attachedClient = try TopologyClient.attach(to: target)
    client = attachedClient
    return attachedClient
  }

  /// Asks for the states of each machine once, through one node that runs it.
  private func describe(_ directory: TopologyDirectory, _ client: TopologyClient) async {
    for node in directory.nodes where node.kind == .machine && node.isRunning {
      guard let machine = node.hosts, states[machine] == nil else { continue }
      // If the node has not described itself yet, the next snapshot asks again.
      guard
        case .description(let description)? = try? await client.command(.describe(node: node.name))
      else { continue }
      states[machine] = description.states.map(\.name)
    }
  }
}

/// The source of an inspector's data: a running topology or a recording.
package protocol SnapshotSource: Sendable {
  /// Returns the topology's data at this moment.
  func snapshot() async -> TopologySnapshot
}

/// A topology at one moment.
package struct TopologySnapshot: Hashable, Sendable {
  /// The topology's name.
  package var topology: String
  /// The nodes and pipes, or the reason why there are none.
  package var directory: Result<TopologyDirectory, UnavailableError>
  /// The names of the states, by machine, if the states are cases.
  package var states: [String: [String]] = [:]
  /// The resource usage of the processes, by id.
  package var usage: [Int32: ProcessUsage] = [:]

  package init(topology: String, directory: Result<TopologyDirectory, UnavailableError>) {
    self.topology = topology
    self.directory = directory
  }

  /// The reason why a topology has no data.
  package struct UnavailableError: Error, Hashable, Sendable {
    /// A text for the person, with what to do.
    package var reason: String

    package init(_ reason: String) { self.reason = reason }
  }
}
