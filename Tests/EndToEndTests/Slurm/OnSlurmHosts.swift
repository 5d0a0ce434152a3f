import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import Testing

/// Helpers for tests of a topology on the hosts of a Slurm job.
protocol OnSlurmHosts {}

extension OnSlurmHosts {
  func until(_ node: String, is phase: String, _ ward: DetachedTopology) async throws {
    let isThere: Bool? = try await poll(every: .milliseconds(100), within: .seconds(60)) {
      try await ward.directory()[node: node]?.phase == phase ? true : nil
    }
    let logs = try ward.logs()
    #expect(isThere == true, "\(node) is to be \(phase): \(logs)")
  }

  /// Returns the processes of a node of this test, on any host.
  func processes(of node: String, _ ward: DetachedTopology) -> [String] {
    FileSystem.entryNames(of: "/proc").filter { entry in
      guard let environment = FileSystem.contents(of: "/proc/\(entry)/environ") else {
        return false
      }
      let variables = environment.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
      return variables.contains {
        $0.hasPrefix("PIPERUNTIME_NODE=") && $0.hasSuffix(".ward.\(node)")
      } && variables.contains { $0.contains(ward.tool.directory.path) }
    }
  }
}
