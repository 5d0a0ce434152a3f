import PipeRuntime

/// Finds nodes that take steps and show none: a program that joins over the protocol need not offer them.
final class StepSilence: Sendable {
  private let client: TopologyClient
  private let nodes: Set<String>
  private let telling = Locked<Set<String>>([])

  /// How often the nodes' counters are looked at.
  private static let pause: Duration = .seconds(1)

  init(of nodes: [NodeInformation], _ client: TopologyClient) {
    self.client = client
    self.nodes = Set(nodes.filter { $0.kind == .machine }.map(\.name))
  }

  /// Reports each such node once, until the task is cancelled.
  func watch(_ report: @Sendable (_ node: String) -> Void) async throws {
    let stream = try await client.steps(of: nodes.sorted())
    let reading = Task {
      for await message in stream {
        if case .step(let step) = message { self.telling.withLock { _ = $0.insert(step.node) } }
      }
    }
    defer { reading.cancel() }
    var counts: [String: UInt64] = [:]
    // Looks at which a node had taken further steps; the first may be from before its feed was followed.
    var looks: [String: Int] = [:]
    while true {
      for node in try await client.directory().nodes where nodes.contains(node.name) {
        guard let version = node.status?.version else { continue }
        if looks[node.name] == 2, !telling.withLock({ $0.contains(node.name) }) {
          looks[node.name] = 3
          report(node.name)
        }
        if let count = counts.updateValue(version, forKey: node.name), version > count {
          looks[node.name, default: 0] += 1
        }
      }
      try await Task.sleep(for: Self.pause)
    }
  }
}
