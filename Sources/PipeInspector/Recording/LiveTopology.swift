import PipeClient
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// A topology that runs, or will, under one name: whenever it comes back, it is attached to again.
package actor LiveTopology: InspectionSource {
  /// The topology's name.
  package nonisolated let name: String
  private let target: TopologyTarget
  private var client: TopologyClient?
  /// By machine, the names of its states.
  private var states: [String: [String]] = [:]
  /// The round of questions that is under way: who comes meanwhile gets its answer.
  private var round: Task<TopologySnapshot, Never>?

  /// - Parameter target: One on this host is named.
  package init(_ target: TopologyTarget, name: String) {
    self.target = target
    self.name = name
  }

  deinit { client?.close() }

  package func snapshot() async -> TopologySnapshot {
    if let round { return await round.value }
    let round = Task { await ask() }
    self.round = round
    defer { self.round = nil }
    return await round.value
  }

  private func ask() async -> TopologySnapshot {
    do {
      let client = try attached()
      let directory = try await client.directory()
      await describe(directory, client)
      var snapshot = TopologySnapshot(topology: name, directory: .success(directory))
      snapshot.states = states
      // The numbers of another host's processes are those of others here.
      for pid in directory.pids where client.remote == nil {
        snapshot.usage[pid] = ProcessUsage(pid: pid)
      }
      return snapshot
    } catch {
      // The next one is asked anew: it may be there again, with other machines.
      client?.close()
      client = nil
      states = [:]
      return TopologySnapshot(
        topology: name, directory: .failure(TopologySnapshot.Absence("\(error)")))
    }
  }

  private func attached() throws -> TopologyClient {
    if let client { return client }
    let attached = try TopologyClient.attach(to: target)
    client = attached
    return attached
  }

  /// Asks once for the states of each machine: of one node that hosts it.
  private func describe(_ directory: TopologyDirectory, _ client: TopologyClient) async {
    for node in directory.nodes where node.kind == .machine && node.isRunning {
      guard let machine = node.hosts, states[machine] == nil else { continue }
      // One that has not described itself yet is asked again the next time.
      guard
        case .description(let description)? = try? await client.command(.describe(node: node.name))
      else { continue }
      states[machine] = description.states.map(\.name)
    }
  }
}

/// Where an inspector reads what it tells of a topology: one that runs, or one that was recorded.
package protocol InspectionSource: Sendable {
  /// What is known of the topology at this moment.
  func snapshot() async -> TopologySnapshot
}

/// A topology at one moment.
package struct TopologySnapshot: Hashable, Sendable {
  /// The topology's name.
  package var topology: String
  /// Its nodes and pipes, or why there are none.
  package var directory: Result<TopologyDirectory, Absence>
  /// By machine, the names of its states, where they are cases.
  package var states: [String: [String]] = [:]
  /// What the processes use, by their ids.
  package var usage: [Int32: ProcessUsage] = [:]

  package init(topology: String, directory: Result<TopologyDirectory, Absence>) {
    self.topology = topology
    self.directory = directory
  }

  /// Why nothing is known of a topology.
  package struct Absence: Error, Hashable, Sendable {
    /// In words, with what to do.
    package var reason: String

    package init(_ reason: String) { self.reason = reason }
  }
}
