import PipeMachines
import PipeSupport
import PipeWire

// What the machine would say to its events. Nothing changes by that.
extension MachineContent {
  /// Tells what the machine would say to one event, or to each.
  /// - Parameter body: The event as JSON; a bare label stands for every value of its case. Empty: all
  ///   events.
  @export(interface)
  func explain(_ body: UnsafeRawBufferPointer, reply: @escaping (RequestReply) -> Void) {
    do {
      let state = try JSONValue(parsing: states.encode(engine.state))
      let explanation = NodeExplanation(
        state: state, version: engine.version, events: try evaluations(of: body), hold: hold)
      // Not before the state is recorded.
      unrecorded.reply(.explained(by: explanation), to: reply)
    } catch {
      reply(.invalid("\(error)"))
    }
  }

  @export(interface)
  private func evaluations(of body: UnsafeRawBufferPointer) throws -> [String: Evaluation] {
    let machine = engine.machine
    let state = engine.state
    if body.isEmpty {
      let names = EnumCases<Event>.names
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
    let event = try events.decode(body)
    return [EnumCases.name(of: event) ?? "": machine.evaluate(event, in: state)]
  }

  /// Why nothing is taken now, whatever the state is.
  private var hold: NodeExplanation.Hold? {
    if let participant, let prepared = participant.prepared(of: node) {
      return participant.isInDoubt ? .doubt(prepared) : .transaction(prepared)
    }
    if !engine.isSettled { return .transition }
    let full = outs.filter(\.isFull).map(\.name)
    return full.isEmpty && engine.canTakeInput ? nil : .pipes(full)
  }
}
