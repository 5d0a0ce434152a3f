import PipeMachines
import PipeWire

/// Holds what a program answers for a node against what it has told of that node's machine.
struct AnswerCheck {
  private let node: String
  private let description: MachineDescription
  /// The pipes that lead from the node.
  private let pipes: Set<String>

  /// - Parameter description: What the program's `describe` says.
  init(of node: String, _ description: MachineDescription, pipes: some Sequence<String>) {
    self.node = node
    self.description = description
    self.pipes = Set(pipes)
  }

  /// What is wrong with how the node begins, in words; `nil` where nothing is.
  func problem(in opening: OracleOpening) -> String? {
    let state = opening.configuration.state
    // Another coding may write the same values otherwise; the case is the same.
    if description.stateFields == nil, state.caseName != description.initial.caseName {
      return "node '\(node)' begins in state '\(state.caseText)', and \(machine) in state "
        + "'\(description.initial.caseText)'"
    }
    if let name = Self.first(of: opening.events.keys, notIn: description.events.map(\.name)) {
      return "node '\(node)' takes event '\(name)', which \(machine) does not have"
    }
    let effects = opening.works.map(\.name).filter { !$0.hasPrefix("feedback") }
    if let name = Self.first(of: effects, notIn: description.outputs.map(\.name)) {
      return "node '\(node)' has output '\(name)', which \(machine) does not have"
    }
    return problem(in: opening.sends)
  }

  /// What is wrong with what a step sends, in words; `nil` where nothing is.
  func problem(in sends: [OracleSend]) -> String? {
    Self.first(of: sends.map(\.pipe), notIn: pipes).map {
      "node '\(node)' sends into pipe '\($0)', which does not lead from it"
    }
  }

  private var machine: String { "machine '\(description.machine)', as it describes itself," }

  private static func first(
    of names: some Sequence<String>, notIn known: some Collection<String>
  ) -> String? {
    names.sorted().first { !known.contains($0) }
  }
}
