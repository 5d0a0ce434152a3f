import PipeMachines
import PipeWire

/// A rule of the topology: on entering a state, an event made from it goes into a pipe.
struct StateRule {
  /// The state's case.
  let tag: Int
  private let template: PayloadTemplate
  private let pipe: OutPipe

  init(
    _ rule: NodeConfiguration.Rule, pipe: OutPipe, states: [CaseDescription]
  ) throws {
    guard let tag = states.firstIndex(where: { $0.name == rule.when }) else {
      throw NodeProblem("pipe '\(pipe.name)': there is no state '\(rule.when ?? "")'")
    }
    self.tag = tag
    template = try PayloadTemplate(rule.send)
    self.pipe = pipe
  }

  /// Sends the event; the state's JSON is asked for only where the event takes something of it.
  func fire(_ state: () -> [UInt8]) {
    let bytes = template.constant ?? template.render(state: state())
    pipe.enqueue { $0.append(contentsOf: bytes) }
  }
}
