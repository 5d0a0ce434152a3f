import PipeMachines
import PipeSupport
import PipeWire

// Events that have come through pipes.
extension MachineContent {
  func takeNext(of index: Int) {
    guard let entry = queues[index].popNext() else { return }
    let pipe = queues[index].pipe
    switch entry.content {
    case .undecodable(let problem, let text):
      undecodable += 1
      settle(entry, of: index, event: text, reason: problem)
    case .event(let event):
      if let poison, poison.matches(pipe.name, entry.sequence) {
        return settle(
          entry, of: index, event: json(of: event), reason: poison.reason)
      }
      if let participant,
        let problem = participant.problem(withDirect: EnumCases.name(of: event))
      {
        return settle(entry, of: index, event: json(of: event), reason: problem)
      }
      inFlight = (entry, index)
      if !marks.isEmpty { marks[index].begin(entry.sequence) }
      engine.take(event, cause: pipe.name, done: pipeStepDone)
    }
  }

  /// The step that an event of a pipe led to is done, now or after an asynchronous transition.
  func finishPipeStep(_ outcome: StepOutcome<State>) {
    guard let (entry, index) = inFlight else { return }
    inFlight = nil
    if !marks.isEmpty { marks[index].end() }
    switch outcome {
    case .moved:
      finish(entry, of: index)
    case .refused(let refusal):
      if queues[index].pipe.onRefused == .postpone { return postpone(entry, of: index, refusal) }
      guard case .event(let event) = entry.content else { return }
      let reason = refusal.error.map { "thrown: \($0)" } ?? refusal.code
      settle(entry, of: index, event: json(of: event), reason: "refused: \(reason)")
    case .pending: break
    }
  }

  @export(interface)
  func json(of event: Event) -> JSONValue {
    (try? JSONValue(parsing: events.encode(event))) ?? .null
  }

  /// The event is applied, or refused for good.
  private func finish(_ entry: PipeQueue<Event>.Entry, of index: Int) {
    let pipe = queues[index].pipe
    guard let held = entry.held else { return pipe.finish(entry.sequence, of: entry.stream) }
    if pipe.state.isDurable { unrecorded.release(held) }
    pipe.release(entry.sequence, of: entry.stream)
  }

  @export(interface)
  private func postpone(
    _ entry: PipeQueue<Event>.Entry, of index: Int, _ refusal: Refusal
  ) {
    var entry = entry
    let pipe = queues[index].pipe
    if entry.held == nil {
      if let error = refusal.error {
        log.warning(
          "pipe '\(pipe.name)': event \(entry.sequence) is put off, since the machine's function "
            + "threw: \(error)")
      }
      let held = unrecorded.nextHeld()
      if pipe.state.isDurable, case .event(let event) = entry.content {
        do {
          unrecorded.hold(held, pipe.name, entry.sequence, event: try events.encode(event))
        } catch {
          // It came as JSON, and its type writes none: it would be lost with the process.
          let reason = "refused: \(refusal.code), and cannot be put off: \(error)"
          return settle(entry, of: index, event: .null, reason: reason)
        }
        pipe.hold(entry.sequence, of: entry.stream)
      }
      entry.held = held
    }
    queues[index].postpone(entry)
  }

  /// Does with an event that cannot be applied what its pipe says.
  @export(interface)
  private func settle(
    _ entry: PipeQueue<Event>.Entry, of index: Int, event: JSONValue, reason: String
  ) {
    let refused = RefusedEvent(
      pipe: queues[index].pipe.name, sequence: entry.sequence, event: event, reason: reason,
      state: stateJSON, stateText: stateText, version: engine.version)
    if let problem = refused.settle(queues[index].pipe.onRefused, in: &letters, log: log) {
      onEnd?(problem)
    } else {
      finish(entry, of: index)
    }
  }

  var stateJSON: JSONValue? {
    (try? states.encode(engine.state)).flatMap { try? JSONValue(parsing: $0) }
  }
}
