import PipeRuntime

/// The arguments `[FILE] [NODE...]`: the first one is the file where it looks like one.
package struct FileAndNodes: Hashable {
  package let file: String
  package let nodes: [String]
  /// Whether the file was named, and is not the one that is meant otherwise.
  package let isFileGiven: Bool

  /// - Parameter isFile: Whether there is a file of that path.
  package init(
    _ arguments: [String],
    isFile: (String) -> Bool = { FileSystem.exists($0) && !FileSystem.isDirectory($0) }
  ) throws(UsageError) {
    var nodes = arguments[...]
    if let first = nodes.first, Self.looksLikeFile(first) || isFile(first) {
      file = first
      isFileGiven = true
      nodes = nodes.dropFirst()
    } else {
      file = "topology.yaml"
      isFileGiven = false
    }
    for node in nodes {
      guard let wanted = ValueKind.node.problem(with: node) else { continue }
      throw .invalidValue(of: "NODE", value: node, wanted: wanted)
    }
    self.nodes = Array(nodes)
  }

  private static func looksLikeFile(_ argument: String) -> Bool {
    argument.contains("/") || [".yaml", ".yml", ".json"].contains { argument.hasSuffix($0) }
  }
}
