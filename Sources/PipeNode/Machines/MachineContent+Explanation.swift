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
        state: state, version: engine.version, events: try foresights(of: body), hold: hold)
      // Not before the state is recorded.
      unrecorded.reply(.explained(by: explanation), to: reply)
    } catch {
      reply(.invalid("\(error)"))
    }
  }

  @export(interface)
  private func foresights(of body: UnsafeRawBufferPointer) throws -> [String: Foresight] {
    let machine = engine.machine
    let state = engine.state
    if body.isEmpty {
      let names = EnumCases<Event>.names
      return Dictionary(
        names.compactMap { name in
          machine.foresee(caseNamed: name, in: state).map { (name, $0) }
        }, uniquingKeysWith: { first, _ in first })
    }
    if let name = (try? JSONValue(parsing: body))?.string,
      let foresight = machine.foresee(caseNamed: name, in: state)
    {
      return [name: foresight]
    }
    let event = try events.decode(body)
    return [EnumCases.name(of: event) ?? "": machine.foresee(event, in: state)]
  }

  /// Why nothing is taken now, whatever the state is.
  private var hold: NodeExplanation.Hold? {
    if let participation, let promise = participation.promise(of: node) {
      return participation.isInDoubt ? .doubt(promise) : .transaction(promise)
    }
    if !engine.isSettled { return .transition }
    let full = outs.filter(\.isFull).map(\.name)
    return full.isEmpty && engine.canTakeInput ? nil : .pipes(full)
  }
}
