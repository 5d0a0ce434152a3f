import PipeClient
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// Reads snapshots of a topology, which may start, stop and restart at any time. After a restart,
/// attaches to the topology again.
package actor LiveTopology: SnapshotSource {
  /// The topology's name.
  package nonisolated let name: String
  private let target: TopologyTarget
  private var client: TopologyClient?
  /// For each machine, the names of its states.
  private var stateNamesByMachine: [String: [String]] = [:]
  /// The snapshot that is being read. Requests that arrive during the read share this snapshot.
  private var pendingSnapshot: Task<TopologySnapshot, Never>?

  /// - Parameter target: The topology. For a topology on this host, the target must have a name.
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
      snapshot.stateNamesByMachine = stateNamesByMachine
      // On this host, a process id from another host would refer to an unrelated process.
      for pid in directory.pids where client.remote == nil {
        snapshot.usageByPID[pid] = ProcessUsage(pid: pid)
      }
      return snapshot
    } catch {
      // The next snapshot attaches again, because the topology may be restarted with other
      // machines.
      client?.close()
      client = nil
      stateNamesByMachine = [:]
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

  /// Requests the names of each machine's states, once, from a node that runs the machine.
  private func describe(_ directory: TopologyDirectory, _ client: TopologyClient) async {
    for node in directory.nodes where node.kind == .machine && node.isRunning {
      guard let machine = node.hosts, stateNamesByMachine[machine] == nil else { continue }
      // If a node has not sent its description yet, the next snapshot asks the node again.
      guard
        case .description(let description)? = try? await client.command(.describe(node: node.name))
      else { continue }
      stateNamesByMachine[machine] = description.states.map(\.name)
    }
  }
}

/// The data source of a metrics server, such as a running topology.
package protocol SnapshotSource: Sendable {
  /// Returns the current data of the topology.
  func snapshot() async -> TopologySnapshot
}

/// The data of a topology at one moment.
package struct TopologySnapshot: Hashable, Sendable {
  /// The topology's name.
  package var topology: String
  /// The nodes and pipes, or the reason why they are unknown.
  package var directory: Result<TopologyDirectory, UnavailableError>
  /// The time of the snapshot. Unit: nanoseconds since 1970.
  package var time = WallClock.nanoseconds
  /// For each machine whose states are cases of an enum, the names of these cases.
  package var stateNamesByMachine: [String: [String]] = [:]
  /// For each process id, the resource usage of the process.
  package var usageByPID: [Int32: ProcessUsage] = [:]

  package init(topology: String, directory: Result<TopologyDirectory, UnavailableError>) {
    self.topology = topology
    self.directory = directory
  }

  /// The reason why there is no data about a topology.
  package struct UnavailableError: Error, Hashable, Sendable {
    /// A sentence for the user, which says what to do.
    package var reason: String

    package init(_ reason: String) { self.reason = reason }
  }
}
