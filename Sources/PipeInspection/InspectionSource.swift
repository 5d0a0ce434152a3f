import PipeClient
import PipeMachines
import PipeSystem
import PipeWire

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
