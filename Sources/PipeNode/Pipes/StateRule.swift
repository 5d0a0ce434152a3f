import PipeMachines
import PipeWire

/// A rule of the topology: on entering a state, an event made from it goes into a pipe.
struct StateRule {
  /// The state's case.
  let tag: Int
  private let template: PayloadTemplate

  /// - Parameter pipe: The name of the pipe that it feeds.
  init(
    _ rule: NodeConfiguration.Rule, pipe: String, states: [CaseDescription]
  ) throws {
    guard let tag = states.firstIndex(where: { $0.name == rule.when }) else {
      throw NodeProblem("pipe '\(pipe)': there is no state '\(rule.when ?? "")'")
    }
    self.tag = tag
    template = try PayloadTemplate(rule.send)
  }

  /// The event as JSON; the state's is asked for only where the event takes something of it.
  func event(_ state: () -> [UInt8]) -> [UInt8] {
    template.constant ?? template.render(state: state())
  }
}
