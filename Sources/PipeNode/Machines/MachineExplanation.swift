import PipeMachines
import PipeWire

/// Explains how a machine would answer events in its current state, without applying the events.
struct MachineExplanation<Hosted: Machine> {
  let core: MachineCore<Hosted>
  let outlets: MachineOutlets

  /// Explains how the machine would answer one event or every event.
  /// - Parameter body: The event as JSON. If the JSON is only the name of an event's case, the
  ///   explanation is about this case with any associated values. If the body is empty, the
  ///   explanation is about all events.
  @export(interface)
  func explain(_ body: UnsafeRawBufferPointer) throws -> NodeExplanation {
    let state = try JSONValue(parsing: core.encode(core.engine.state, version: core.engine.version))
    var explanation = NodeExplanation(
      state: state, version: core.engine.version, events: try evaluations(of: body),
      hold: holdReason)
    explanation.timer = core.runningTimer(findsTarget: true)
    return explanation
  }

  @export(interface)
  private func evaluations(of body: UnsafeRawBufferPointer) throws -> [String: Evaluation] {
    let machine = core.engine.machine
    let state = core.engine.state
    if body.isEmpty {
      let names = EnumCases<Hosted.Event>.names
      return Dictionary(
        names.compactMap { name in
          machine.evaluate(caseNamed: name, in: state).map { (name, $0) }
        }, uniquingKeysWith: { first, _ in first })
    }
    if let name = (try? JSONValue(parsing: body))?.string,
      let evaluation = machine.evaluate(caseNamed: name, in: state)
    {
      return [name: evaluation]
    }
    let event = try core.events.decode(body)
    return [EnumCases.name(of: event) ?? "": machine.evaluate(event, in: state)]
  }

  /// The reason why the machine accepts no events now, regardless of its state; `nil` if it accepts
  /// events.
  private var holdReason: NodeExplanation.Hold? {
    if let participant = core.participant, let prepared = participant.prepared(of: core.node) {
      return participant.isInDoubt ? .doubt(prepared) : .transaction(prepared)
    }
    if core.engine.isInTransition { return .transition }
    let full = outlets.fullPipeNames
    return full.isEmpty && core.engine.canTakeInput ? nil : .pipes(full)
  }
}
