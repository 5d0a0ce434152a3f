import PipeExplorer
import PipeGraphs
import PipeRuntime
import PipeSupervision

extension LoadedTopology {
  /// The file of a running topology, as it is now.
  static func load(fileOf directory: TopologyDirectory) throws -> LoadedTopology {
    guard FileSystem.exists(directory.file) else {
      throw CommandError(
        "topology '\(directory.topology)' was read from '\(directory.file)', and there is no such "
          + "file now; name the file")
    }
    return try LoadedTopology.load(.file(directory.file), name: directory.topology)
  }

  /// The state chart of a node; why there is none is told as who asks for it needs it.
  func chart(of node: String) throws -> StateChart {
    if topology.composite(node) != nil {
      throw CommandError(
        "'\(node)' is a composite: its state is that of its nodes. Name one of them, or leave it "
          + "out for the whole wiring", code: .usage)
    }
    if topology.monitors.contains(where: { $0.name == node }) {
      throw CommandError(
        "'\(node)' is a monitor, which has no states; name a node with a machine", code: .usage)
    }
    do {
      return try StateChartSearch(self).chart(of: node)
    } catch {
      switch error {
      case .unknownNode(let known): throw TopologyClientError.unknownNode(node, known: known)
      case .noMachine:
        throw CommandError(
          "node '\(node)' is constant: it has one state, and no events; name a node with a machine",
          code: .usage)
      case .oracle(let trouble):
        throw CommandError("node '\(node)': its program \(trouble.wording)")
      }
    }
  }
}

extension OracleTrouble {
  /// What the program has done, and what to do.
  fileprivate var wording: String {
    switch self {
    case .notStarted(let reason): "was not started: \(reason)"
    case .ended(let how): "ended when it was asked for single steps: \(how)"
    case .late(let time):
      "did not answer within \(time.shortText) when it was asked for single steps; correct what it "
        + "waits for"
    case .garbage(let text):
      "does not answer for single steps ('\(text)'); build it with this version of PipeRuntime"
    }
  }
}
