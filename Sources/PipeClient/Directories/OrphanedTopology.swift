import PipeSystem

/// A topology whose orchestrator was killed and whose nodes live on.
package struct OrphanedTopology: Sendable {
  package let name: String
  /// The topology file, as an absolute path.
  package let file: String?
  /// The deployment file, as an absolute path.
  package let deployment: String?
  package let nodes: [Survivor]

  /// The orphaned topologies by name.
  package static func all(in roots: RuntimeRoots = RuntimeRoots()) -> [OrphanedTopology] {
    FileSystem.entries(of: roots.runtime).compactMap { name in
      (try? RuntimeDirectories(topology: name, roots: roots)).flatMap { find($0) }
    }
  }

  /// The topology, if it is orphaned.
  package static func find(_ directories: RuntimeDirectories) -> OrphanedTopology? {
    // Without an orchestrator one that has not said who it is yet does so at once.
    guard RunningTopology.find(directories) == nil,
      let nodes = try? Survivor.all(in: directories, patience: .seconds(2)), !nodes.isEmpty,
      RunningTopology.find(directories) == nil
    else { return nil }
    let last = RunningTopology.last(directories)
    return OrphanedTopology(
      name: directories.topology, file: last?.file, deployment: last?.deployment, nodes: nodes)
  }

  /// Whether its nodes run by a deployment file.
  package var isDeployed: Bool { nodes.contains(where: \.isDeployed) }

  /// `orchestrator up FILE`, with what else it takes to go on as before.
  package var upCommand: String {
    Self.upCommand(file: file, deployment: deployment ?? (isDeployed ? "DEPLOYMENT" : nil))
  }

  static func upCommand(file: String?, deployment: String?) -> String {
    "orchestrator up \(file ?? "FILE")" + (deployment.map { " --deployment \($0)" } ?? "")
  }

  /// `orphaned: 2 nodes live`
  package var status: String {
    "orphaned: \(nodes.count == 1 ? "1 node lives" : "\(nodes.count) nodes live")"
  }
}
