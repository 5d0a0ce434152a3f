import PipeJournal
import PipeMachines
import PipeWire

/// The pipes into a machine: takes their events, and reports the outcome of each event to its pipe.
final class MachinePipes<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var ins: [InPipe] = []
  /// Marks the steps of each pipe; empty if steps are not recorded.
  @exclusivity(unchecked)
  private var sourceMarkers: [StepMarkerFile.SourceMarker] = []
  private var postponed = PostponedRecords()
  /// The event of the current step, and the index of its pipe.
  @exclusivity(unchecked)
  private var inFlight: (event: PipeEvent<Hosted.Event>, pipe: Int)?
  /// The number of events that did not decode.
  private(set) var undecodable: UInt64 = 0
  /// Made once: a closure for each event would be an allocation for each.
  @exclusivity(unchecked)
  private var stepCompletion: StepCompletion?

  /// Boxes the closure: each use of an optional closure would wrap it in another closure.
  private struct StepCompletion {
    let call: (StepOutcome<Hosted.State>) -> Void
  }

  init(_ core: MachineCore<Hosted>) { self.core = core }

  /// The pipe, the stream and the number of the event whose step is in progress; `nil` if the
  /// event came from no pipe.
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
    for (index, pipe) in pipes.enumerated() { pipe.index = index }
    core.inbox = MachineInbox(pipes: pipes.count)
    if let journal = core.journal { sourceMarkers = pipes.map { journal.marker.source($0.name) } }
  }

  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError) {
    let index = pipe.index
    let stream = pipe.state.stream
    try events.forEach { bytes, sequence in
      let content = PipeEvent.Content(bytes, readBy: core.events)
      core.inbox.append(PipeEvent(content, sequence: sequence, stream: stream), of: index)
    }
  }

  /// Queues the events that an earlier process postponed. They are tried again, since the state may
  /// have changed.
  @export(interface)
  func restore(_ consumed: [String: JournalContents.Consumed]) {
    // The numbers of events whose pipe is gone are not reused either.
    for consumed in consumed.values {
      for event in consumed.postponed { postponed.restore(event.id) }
    }
    for (name, consumed) in consumed where !consumed.postponed.isEmpty {
      guard let index = ins.firstIndex(where: { $0.name == name && $0.state.isDurable }) else {
        core.log.warning(
          "pipe '\(name)' no longer ends at this node; \(consumed.postponed.count) postponed "
            + "events stay in the journal")
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
      if !sourceMarkers.isEmpty { sourceMarkers[pipe].begin(event.sequence) }
      inFlight = (event, pipe)
      core.engine.take(
        content, cause: ins[pipe].name, done: (stepCompletion ?? makeStepCompletion()).call)
    }
  }

  /// Disposes of an event that is for no instance of a keyed node.
  func reject(_ event: PipeEvent<Hosted.Event>, of pipe: Int, because reason: String) {
    guard case .event(let content) = event.content else { return }
    dispose(of: event, core.json(of: content), of: pipe, because: reason)
  }

  /// Makes the closure. Called in code compiled for the machine's type, so that the closure is,
  /// too.
  private func makeStepCompletion() -> StepCompletion {
    // Safe: the owner of these pipes owns the engine, which makes no calls once the owner is gone.
    let done = StepCompletion { [unowned(unsafe) self] outcome in finishStep(outcome) }
    stepCompletion = done
    return done
  }

  /// Finishes the step of an event, immediately or after an asynchronous transition.
  private func finishStep(_ outcome: StepOutcome<Hosted.State>) {
    guard let (event, pipe) = inFlight.take() else { return }
    if !sourceMarkers.isEmpty { sourceMarkers[pipe].end() }
    switch outcome {
    case .accepted:
      finish(event, of: pipe)
    case .refused(let refusal):
      if ins[pipe].onRefused == .postpone { return postpone(event, of: pipe, refusal) }
      if ins[pipe].onRefused == .ignore, refusal.canBeIgnored {
        ins[pipe].ignored += 1
        return finish(event, of: pipe)
      }
      guard case .event(let content) = event.content else { return }
      let reason = refusal.error.map { "thrown: \($0)" } ?? refusal.code
      dispose(of: event, core.json(of: content), of: pipe, because: "refused: \(reason)")
    case .pending: break
    }
  }

  /// Finishes an event that is applied, or refused for good.
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
          "pipe '\(pipe.name)': event \(event.sequence) is postponed: the machine's function "
            + "threw: \(error)")
      }
      let number = postponed.nextNumber()
      if pipe.state.isDurable, case .event(let content) = event.content {
        do {
          postponed.add(
            number, pipe.name, event.sequence, event: try core.events.encode(content))
        } catch {
          // The event came as JSON, and its type cannot be encoded: it would be lost with the
          // process.
          return dispose(
            of: event, .null, of: index,
            because: "refused: \(refusal.code); the event cannot be postponed: \(error)")
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

  /// Applies the pipe's refusal policy to an event that cannot be applied.
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

  var hasUnrecordedChanges: Bool { !postponed.isEmpty }
  func record(into journal: Journal) throws { try postponed.record(into: journal) }
  func recorded() { postponed.recorded() }
}

/// The numbers of postponed events, and the changes that the journal has not recorded yet.
struct PostponedRecords {
  private var last: Int64 = 0
  private var added: [(id: Int64, pipe: String, sequence: UInt64, event: [UInt8])] = []
  private var finished: [Int64] = []

  /// Notes the number of an event that an earlier process postponed.
  mutating func restore(_ id: Int64) { last = max(last, id) }

  /// Assigns the number of the next postponed event.
  mutating func nextNumber() -> Int64 {
    last += 1
    return last
  }

  /// Adds a postponed event.
  mutating func add(_ id: Int64, _ pipe: String, _ sequence: UInt64, event: [UInt8]) {
    added.append((id, pipe, sequence, event))
  }

  /// Removes a postponed event that is applied, or refused for good.
  mutating func finish(_ id: Int64) {
    if let index = added.firstIndex(where: { $0.id == id }) {
      added.remove(at: index)
    } else {
      finished.append(id)
    }
  }

  /// Whether the journal has recorded all changes.
  var isEmpty: Bool { added.isEmpty && finished.isEmpty }

  func record(into journal: Journal) throws {
    for event in added {
      try journal.postponed(event.id, event.pipe, event.sequence, event: event.event)
    }
    for id in finished { try journal.postponedRemoved(id) }
  }

  mutating func recorded() {
    added = []
    finished = []
  }
}
