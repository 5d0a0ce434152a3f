import PipeJournal
import PipeMachines
import PipeWire

/// The pipes that lead to a machine: takes their events, and says to each what became of it.
final class MachinePipes<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  // Exclusivity is not checked at run time for what each event touches: the loop's thread alone does.
  @exclusivity(unchecked)
  private var ins: [InPipe] = []
  /// Marks the steps of each pipe, where steps are recorded.
  @exclusivity(unchecked)
  private var marks: [StepMark.Source] = []
  private var postponed = PostponedRecords()
  /// The event whose step is under way.
  @exclusivity(unchecked)
  private var inFlight: (event: PipeEvent<Hosted.Event>, pipe: Int)?
  /// Events that did not decode.
  private(set) var undecodable: UInt64 = 0
  /// Made once: a closure for each event would be an allocation for each.
  @exclusivity(unchecked)
  private var stepDone: StepDone?

  /// Keeps a closure that an optional one would be wrapped in another for, at each use.
  private struct StepDone {
    let call: (StepOutcome<Hosted.State>) -> Void
  }

  init(_ core: MachineCore<Hosted>) { self.core = core }

  /// Where the event of the step that is under way came from, if from a pipe.
  var source: (pipe: String, stream: UInt64, number: UInt64)? {
    inFlight.map { (ins[$0.pipe].name, $0.event.stream, $0.event.sequence) }
  }

  var status: [NodeStatus.Pipe] {
    ins.indices.map { ins[$0].status(waiting: core.inbox.count(of: $0)) }
  }

  // MARK: Arrival

  @export(interface)
  func connect(_ pipes: [InPipe]) {
    ins = pipes
    for (place, pipe) in pipes.enumerated() { pipe.place = place }
    core.inbox = MachineInbox(pipes: pipes.count)
    if let journal = core.journal { marks = pipes.map { journal.mark.source($0.name) } }
  }

  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError) {
    let index = pipe.place
    let stream = pipe.state.stream
    try events.forEach { bytes, sequence in
      let content = PipeEvent.Content(bytes, readBy: core.events)
      core.inbox.append(PipeEvent(content, sequence: sequence, stream: stream), of: index)
    }
  }

  /// Puts back the events that were postponed. They are tried again: the state may have changed.
  @export(interface)
  func restore(_ consumed: [String: JournalContents.Consumed]) {
    // Numbers of events whose pipe is gone are not given to others.
    for consumed in consumed.values {
      for event in consumed.postponed { postponed.restore(event.id) }
    }
    for (name, consumed) in consumed where !consumed.postponed.isEmpty {
      guard let index = ins.firstIndex(where: { $0.name == name && $0.state.isDurable }) else {
        core.log.warning(
          "pipe '\(name)' no longer leads here; \(consumed.postponed.count) events that it "
            + "postponed stay in the journal")
        continue
      }
      for (id, sequence, bytes) in consumed.postponed {
        let content = bytes.withUnsafeBytes { PipeEvent.Content($0, readBy: core.events) }
        core.inbox.append(
          PipeEvent(
            content, sequence: sequence, stream: ins[index].state.stream, postponement: id),
          of: index)
      }
    }
  }

  // MARK: Steps

  func take(_ event: consuming PipeEvent<Hosted.Event>, of pipe: Int) {
    switch event.content {
    case .undecodable(let problem, let text):
      undecodable += 1
      dispose(of: event, text, of: pipe, because: problem)
    case .event(let content):
      if let poison = core.poison, poison.matches(ins[pipe].name, event.sequence) {
        return dispose(of: event, core.json(of: content), of: pipe, because: poison.reason)
      }
      if let problem = core.problem(withDirect: content) {
        return dispose(of: event, core.json(of: content), of: pipe, because: problem)
      }
      if !marks.isEmpty { marks[pipe].begin(event.sequence) }
      inFlight = (event, pipe)
      core.engine.take(content, cause: ins[pipe].name, done: (stepDone ?? makeStepDone()).call)
    }
  }

  /// Called where the code is compiled for the machine, so that the closure is, too.
  private func makeStepDone() -> StepDone {
    // What has these pipes has the engine, which calls nobody once that is gone.
    let done = StepDone { [unowned(unsafe) self] outcome in finishStep(outcome) }
    stepDone = done
    return done
  }

  /// The step that an event led to is done, now or after an asynchronous transition.
  private func finishStep(_ outcome: StepOutcome<Hosted.State>) {
    guard let (event, pipe) = inFlight.take() else { return }
    if !marks.isEmpty { marks[pipe].end() }
    switch outcome {
    case .moved:
      finish(event, of: pipe)
    case .refused(let refusal):
      if ins[pipe].onRefused == .postpone { return postpone(event, of: pipe, refusal) }
      guard case .event(let content) = event.content else { return }
      let reason = refusal.error.map { "thrown: \($0)" } ?? refusal.code
      dispose(of: event, core.json(of: content), of: pipe, because: "refused: \(reason)")
    case .pending: break
    }
  }

  /// The event is applied, or refused for good.
  private func finish(_ event: PipeEvent<Hosted.Event>, of index: Int) {
    let pipe = ins[index]
    guard let number = event.postponement else {
      return pipe.finish(event.sequence, of: event.stream)
    }
    if pipe.state.isDurable { postponed.finish(number) }
    pipe.finishPostponed(event.sequence, of: event.stream)
  }

  @export(interface)
  private func postpone(_ event: PipeEvent<Hosted.Event>, of index: Int, _ refusal: Refusal) {
    var event = event
    let pipe = ins[index]
    if event.postponement == nil {
      if let error = refusal.error {
        core.log.warning(
          "pipe '\(pipe.name)': event \(event.sequence) is put off, since the machine's function "
            + "threw: \(error)")
      }
      let number = postponed.nextNumber()
      if pipe.state.isDurable, case .event(let content) = event.content {
        do {
          postponed.add(
            number, pipe.name, event.sequence, event: try core.events.encode(content))
        } catch {
          // It came as JSON, and its type writes none: it would be lost with the process.
          return dispose(
            of: event, .null, of: index,
            because: "refused: \(refusal.code), and cannot be put off: \(error)")
        }
        pipe.postpone(event.sequence, of: event.stream)
      }
      event.postponement = number
      if let onRefusal = core.onRefusal, case .event(let content) = event.content {
        onRefusal(
          RefusedInput(
            core.json(of: content),
            because: "refused: " + (refusal.error.map { "thrown: \($0)" } ?? refusal.code),
            from: .pipe(pipe.name, stream: event.stream, number: event.sequence), isPostponed: true)
        )
      }
    }
    core.inbox.postpone(event, of: index)
  }

  /// Does with an event that cannot be applied what its pipe says.
  @export(interface)
  private func dispose(
    of event: PipeEvent<Hosted.Event>, _ json: JSONValue, of index: Int, because reason: String
  ) {
    let pipe = ins[index]
    core.onRefusal?(
      RefusedInput(
        json, because: reason,
        from: .pipe(pipe.name, stream: event.stream, number: event.sequence)))
    if let problem = core.dispose(
      of: json, event.sequence, from: pipe.name, because: reason, pipe.onRefused)
    {
      core.onEnd?(problem)
    } else {
      finish(event, of: index)
    }
  }

  // MARK: Records

  var hasUnrecorded: Bool { !postponed.isEmpty }
  func record(into journal: Journal) throws { try postponed.record(into: journal) }
  func recorded() { postponed.recorded() }
}

/// The numbers of postponed events, and what the journal lacks of them.
struct PostponedRecords {
  private var last: Int64 = 0
  private var added: [(id: Int64, pipe: String, sequence: UInt64, event: [UInt8])] = []
  private var finished: [Int64] = []

  /// An event was postponed by an earlier process.
  mutating func restore(_ id: Int64) { last = max(last, id) }

  /// The number of the next event that is postponed.
  mutating func nextNumber() -> Int64 {
    last += 1
    return last
  }

  /// An event is postponed.
  mutating func add(_ id: Int64, _ pipe: String, _ sequence: UInt64, event: [UInt8]) {
    added.append((id, pipe, sequence, event))
  }

  /// A postponed event is applied, or refused for good.
  mutating func finish(_ id: Int64) {
    if let index = added.firstIndex(where: { $0.id == id }) {
      added.remove(at: index)
    } else {
      finished.append(id)
    }
  }

  /// Whether the journal lacks nothing.
  var isEmpty: Bool { added.isEmpty && finished.isEmpty }

  func record(into journal: Journal) throws {
    for event in added {
      try journal.postponed(event.id, event.pipe, event.sequence, event: event.event)
    }
    for id in finished { try journal.unpostponed(id) }
  }

  mutating func recorded() {
    added = []
    finished = []
  }
}
