import PipeRuntime

/// Nodes whose steps are recorded.
enum RecordedNodes {
  /// Whether a topology may use `durability: process`.
  static let arePossible: Bool = {
    let text = "topology: t\nprogram: p\nnodes: { a: { machine: M, durability: process } }\n"
    return (try? TopologyReader.read(text: text.utf8, file: "t.yaml")) != nil
  }()
}
