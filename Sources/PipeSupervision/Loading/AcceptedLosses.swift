import PipeClient
import PipeJournal
import PipeSystem
import PipeWire

/// The states that a change of a topology loses, because the new programs cannot read them and the
/// operator has accepted the loss.
struct AcceptedLosses: Sendable {
  /// The losses of one node.
  private struct Node: Sendable {
    let name: String
    let journal: String
    let machine: String
    let durability: Durability
    /// The keys of the instances that are lost; `nil` if the whole journal is lost.
    var keys: [String]?
  }

  private let topology: String
  private var nodes: [Node] = []

  var isEmpty: Bool { nodes.isEmpty }

  /// Whether states of a node are lost.
  func covers(_ node: String) -> Bool { nodes.contains { $0.name == node } }

  /// - Parameters:
  ///   - names: The accepted names of nodes and pipes.
  ///   - report: The findings in the journals.
  init(_ names: [String], in report: JournalTrial.Report, of plan: LaunchPlan) {
    topology = plan.topology
    guard !names.isEmpty else { return }
    for (node, _) in report.unusableJournals where Self.accepts([node], by: names) {
      lose(node, nil, plan)
    }
    for failure in report.failures
    where failure.kind.isState && Self.accepts(failure.acceptingNames, by: names) {
      lose(failure.node, failure.key, plan)
    }
  }

  private mutating func lose(_ name: String, _ key: String?, _ plan: LaunchPlan) {
    guard let node = plan[name], let machine = node.information.hosts,
      let journal = node.information.journal
    else { return }
    guard let index = nodes.firstIndex(where: { $0.name == name }) else {
      nodes.append(
        Node(
          name: name, journal: journal, machine: machine,
          durability: node.information.durability, keys: key.map { [$0] }))
      return
    }
    guard let key else { return nodes[index].keys = nil }
    if nodes[index].keys?.contains(key) == false { nodes[index].keys?.append(key) }
  }

  /// Whether `accepted` contains one of the names in `names`. In `accepted`, the name of a node
  /// with shards stands for the names of all its shards.
  static func accepts(_ names: [String], by accepted: [String]) -> Bool {
    names.contains { name in
      accepted.contains(name)
        || NodeShard(named: name, count: .max).map { accepted.contains($0.node) } == true
    }
  }

  /// Deletes the states whose loss was accepted. Precondition: no process of their nodes runs.
  /// - Parameter note: Called with a line of text for each node.
  func run(note: (String) -> Void) throws {
    for node in nodes {
      if let keys = node.keys {
        try LostInstances.remove(
          keys, from: node.journal,
          identity: .init(topology: topology, node: node.name, machine: node.machine),
          durability: node.durability)
        note(
          "node '\(node.name)': deleted \(keys.count) instances, whose loss was accepted")
      } else {
        try JournalFiles(node.journal, node: node.name).remove()
        note("node '\(node.name)': deleted the journal, whose loss was accepted")
      }
    }
  }
}
