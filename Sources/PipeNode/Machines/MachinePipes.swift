import PipeJournal
import PipeMachines
import PipeWire

/// The inbound pipes of a machine. Offers the events of the pipes to the machine, and reports the
/// outcome of each event to its pipe.
final class MachinePipes<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var inPipes: [InPipe] = []
  /// For each pipe, the marker of the step in progress, for the events from this pipe; empty
  /// without a journal.
  @exclusivity(unchecked)
  private var sourceMarkers: [StepMarkerFile.SourceMarker] = []
  private var postponedRecords = PostponedRecords()
  /// For each pipe, the number of events that wait until their instance is unlocked.
  private var heldCounts: [Int] = []
  /// The event whose step is in progress, and the index of its pipe.
  @exclusivity(unchecked)
  private var inFlight: (event: PipeEvent<Hosted.Event>, pipe: Int)?
  /// The number of events that could not be decoded.
  private(set) var undecodableCount: UInt64 = 0
  /// The closure that finishes a step. Created only once, because a closure for each event would
  /// cost an allocation.
  @exclusivity(unchecked)
  private var stepCompletion: StepCompletion?

  /// A wrapper of the closure that finishes a step. Without the wrapper, Swift would wrap the
  /// optional closure in another closure on each use.
  private struct StepCompletion {
    let call: (StepOutcome<Hosted.State>) -> Void
  }

  init(_ core: MachineCore<Hosted>) { self.core = core }

  /// The pipe, the stream and the number of the event whose step is in progress. `nil` if no step
  /// is in progress, or if its event did not come from a pipe.
  var eventSource: (pipe: String, stream: UInt64, number: UInt64)? {
    inFlight.map { (inPipes[$0.pipe].name, $0.event.stream, $0.event.sequence) }
  }

  /// Appends the pipe, the stream and the number of the event whose step is in progress, as a
  /// member of a JSON object. Returns `false` if its event did not come from a pipe.
  func appendSource(to line: LineBuffer) -> Bool {
    guard let inFlight else { return false }
    line.append(#","source":"#)
    line.append(pipe: inPipes[inFlight.pipe].name, inFlight.event.stream, inFlight.event.sequence)
    line.append("]")
    return true
  }

  var pipeStatuses: [NodeStatus.Pipe] {
    inPipes.indices.map {
      inPipes[$0].status(waiting: core.inbox.waitingCount(of: $0) + heldCounts[$0])
    }
  }

  // MARK: Arrival of events

  @export(interface)
  func connect(_ pipes: [InPipe]) {
    inPipes = pipes
    heldCounts = pipes.map { _ in 0 }
    for (index, pipe) in pipes.enumerated() { pipe.index = index }
    core.inbox = MachineInbox(pipes: pipes.count)
    if let journal = core.journal {
      sourceMarkers = pipes.map { journal.marker.sourceMarker($0.name) }
    }
  }

  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError) {
    let index = pipe.index
    let stream = pipe.state.stream
    try events.forEach { bytes, sequence in
      let content = core.content(bytes, schema: events.schemaVersion)
      core.inbox.append(
        PipeEvent(content, sequence: sequence, stream: stream, schema: events.schemaVersion),
        of: index)
    }
  }

  /// Queues the events that an earlier process postponed. The machine tries these events again,
  /// because its state may have changed.
  @export(interface)
  func restore(_ consumed: [String: JournalContents.InPipeProgress]) {
    // Ids of postponed events are not reused, even if their pipe no longer exists.
    for consumed in consumed.values {
      for event in consumed.postponedEvents { postponedRecords.restore(event.id) }
    }
    for (name, consumed) in consumed where !consumed.postponedEvents.isEmpty {
      guard let index = inPipes.firstIndex(where: { $0.name == name && $0.state.isDurable }) else {
        core.log.warning(
          "pipe '\(name)' no longer ends at this node; \(consumed.postponedEvents.count) postponed "
            + "events stay in the journal")
        continue
      }
      for (id, sequence, bytes, schema) in consumed.postponedEvents {
        let content = bytes.withUnsafeBytes { core.content($0, schema: schema) }
        core.inbox.append(
          PipeEvent(
            content, sequence: sequence, stream: inPipes[index].state.stream, postponement: id,
            schema: schema),
          of: index)
      }
    }
  }

  // MARK: Reports for gates

  /// Returns the index of the pipe with this name, and its refusal policy.
  func find(_ name: String) -> (index: Int, onRefused: RefusalPolicy)? {
    inPipes.firstIndex { $0.name == name }.map { ($0, inPipes[$0].onRefused) }
  }

  /// Returns the reason why the machine refuses an event in its current state; `nil` if it accepts
  /// the event, or if its transition is asynchronous.
  @export(interface)
  func reasonToRefuse(_ event: PipeEvent<Hosted.Event>) -> String? {
    guard case .event(let content) = event.content,
      core.reasonToRefuse(unsynchronized: content) == nil
    else { return "undecodable" }
    guard case .refused(let refusal) = core.engine.machine.step(core.engine.state, content) else {
      return nil
    }
    return refusal.code
  }

  /// The inbound pipes with their events, for the report of a gate.
  @export(interface)
  var gateReports: [GateReport.PipeEnd] {
    inPipes.map { pipe in
      let events = core.inbox.events(of: pipe.index)
      return GateReport.PipeEnd(
        pipe: pipe.name, stream: pipe.state.stream, last: pipe.state.lastReceived,
        events: events.postponed.map { gateReport(of: $0, isPostponed: true) }
          + events.waiting.map { gateReport(of: $0, isPostponed: false) })
    }
  }

  private func gateReport(
    of event: PipeEvent<Hosted.Event>, isPostponed: Bool
  ) -> GateReport.Event {
    let json: JSONValue =
      switch event.content {
      case .event(let content): core.json(of: content)
      case .undecodable(_, let text): text
      }
    return GateReport.Event(number: event.sequence, event: json, isPostponed: isPostponed)
  }

  // MARK: Processing events

  func process(_ event: consuming PipeEvent<Hosted.Event>, of pipe: Int) {
    switch event.content {
    case .undecodable(let problem, let text):
      undecodableCount += 1
      dispose(of: event, text, of: pipe, because: problem)
    case .event(let content):
      if let poison = core.poisonEvent, poison.matches(inPipes[pipe].name, event.sequence) {
        return dispose(of: event, core.json(of: content), of: pipe, because: poison.reason)
      }
      if let problem = core.reasonToRefuse(unsynchronized: content) {
        return dispose(of: event, core.json(of: content), of: pipe, because: problem)
      }
      if !sourceMarkers.isEmpty { sourceMarkers[pipe].begin(event.sequence) }
      inFlight = (event, pipe)
      core.engine.take(
        content, cause: inPipes[pipe].name, done: (stepCompletion ?? makeStepCompletion()).call)
    }
  }

  /// Applies the refusal policy to an event that belongs to no instance of a keyed node.
  func reject(_ event: PipeEvent<Hosted.Event>, of pipe: Int, because reason: String) {
    guard case .event(let content) = event.content else { return }
    dispose(of: event, core.json(of: content), of: pipe, because: reason)
  }

  /// Keeps an event of a keyed node until the event's instance is unlocked. The journal records the
  /// event, so that the pipe can still deliver the events of other instances.
  /// - Returns: The kept event; `nil` if the event cannot be recorded and was handled by the
  ///   refusal policy.
  @export(interface)
  func hold(_ event: PipeEvent<Hosted.Event>, of index: Int) -> PipeEvent<Hosted.Event>? {
    var event = event
    if event.postponementID == nil {
      let (pipe, number) = (inPipes[index], postponedRecords.nextNumber())
      if pipe.state.isDurable, case .event(let content) = event.content {
        do {
          postponedRecords.add(
            number, pipe.name, event.sequence, event: try core.events.encode(content))
        } catch {
          dispose(
            of: event, .null, of: index,
            because: "the instance is locked, and the event cannot be recorded: \(error)")
          return nil
        }
        pipe.postpone(event.sequence, of: event.stream)
      }
      event.postponementID = number
    }
    heldCounts[index] += 1
    return event
  }

  /// Notes that an event no longer waits for its instance.
  func release(_ index: Int) { heldCounts[index] -= 1 }

  /// Creates the closure that finishes a step. The compiler specializes this function, and so also
  /// the closure, for the machine's type.
  private func makeStepCompletion() -> StepCompletion {
    // `unowned(unsafe)` is safe, because the owner of this object also owns the engine, and the
    // engine makes no calls after its owner is released.
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
      if inPipes[pipe].onRefused == .postpone { return postpone(event, of: pipe, refusal) }
      if inPipes[pipe].onRefused == .ignore, refusal.canBeIgnored {
        inPipes[pipe].ignoredCount += 1
        reportDropped(event, of: pipe, refusal)
        return finish(event, of: pipe)
      }
      guard case .event(let content) = event.content else { return }
      let reason = refusal.error.map { "thrown: \($0)" } ?? refusal.code
      dispose(of: event, core.json(of: content), of: pipe, because: "refused: \(reason)")
    case .pending: break
    }
  }

  /// Reports an event that `on_refused: ignore` drops.
  private func reportDropped(
    _ event: PipeEvent<Hosted.Event>, of pipe: Int, _ refusal: Refusal
  ) {
    guard let onRefusal = core.onRefusal, case .event(let content) = event.content else { return }
    onRefusal(
      RefusedInput(
        core.json(of: content), because: "refused: \(refusal.code)",
        from: .pipe(inPipes[pipe].name, stream: event.stream, number: event.sequence),
        isDropped: true))
  }

  /// Finishes an event that is applied, or refused for good.
  private func finish(_ event: PipeEvent<Hosted.Event>, of index: Int) {
    let pipe = inPipes[index]
    guard let number = event.postponementID else {
      return pipe.finish(event.sequence, of: event.stream)
    }
    if pipe.state.isDurable { postponedRecords.finish(number) }
    pipe.finishPostponed(event.sequence, of: event.stream)
  }

  @export(interface)
  private func postpone(_ event: PipeEvent<Hosted.Event>, of index: Int, _ refusal: Refusal) {
    var event = event
    let pipe = inPipes[index]
    if event.postponementID == nil {
      if let error = refusal.error {
        core.log.warning(
          "pipe '\(pipe.name)': event \(event.sequence) is postponed: the machine's function "
            + "threw: \(error)")
      }
      let number = postponedRecords.nextNumber()
      if pipe.state.isDurable, case .event(let content) = event.content {
        do {
          postponedRecords.add(
            number, pipe.name, event.sequence, event: try core.events.encode(content))
        } catch {
          // The event arrived as JSON, but cannot be encoded again, and so cannot be recorded. If
          // the event were postponed, it would be lost when the process ends.
          return dispose(
            of: event, .null, of: index,
            because: "refused: \(refusal.code); the event cannot be postponed: \(error)")
        }
        pipe.postpone(event.sequence, of: event.stream)
      }
      event.postponementID = number
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
    let pipe = inPipes[index]
    core.onRefusal?(
      RefusedInput(
        json, because: reason,
        from: .pipe(pipe.name, stream: event.stream, number: event.sequence)))
    var schema = Hosted.schema
    // An event that could not be migrated keeps its schema version, for a program that can migrate
    // it. If the event has the current version, its actual version is unknown.
    if case .undecodable = event.content {
      schema = event.schema == Hosted.schema ? unknownSchema : event.schema
    }
    if let problem = core.dispose(
      of: json, event.sequence, from: pipe.name, because: reason, pipe.onRefused, schema: schema)
    {
      core.onEnd?(problem)
    } else {
      finish(event, of: index)
    }
  }

  // MARK: Recording postponed events

  var hasUnrecordedChanges: Bool { !postponedRecords.isEmpty }
  func record(into journal: Journal) throws { try postponedRecords.record(into: journal) }
  func didRecord() { postponedRecords.didRecord() }
}

/// Assigns numbers to postponed events, and collects the changes to these events that the journal
/// has not recorded yet.
struct PostponedRecords {
  private var lastNumber: Int64 = 0
  private var addedEvents: [(id: Int64, pipe: String, sequence: UInt64, event: [UInt8])] = []
  private var finishedNumbers: [Int64] = []

  /// Notes the id of an event that an earlier process has postponed, so that the id is not reused.
  mutating func restore(_ id: Int64) { lastNumber = max(lastNumber, id) }

  /// Returns the id for the next postponed event.
  mutating func nextNumber() -> Int64 {
    lastNumber += 1
    return lastNumber
  }

  /// Adds a postponed event to the changes.
  mutating func add(_ id: Int64, _ pipe: String, _ sequence: UInt64, event: [UInt8]) {
    addedEvents.append((id, pipe, sequence, event))
  }

  /// Removes a postponed event, because it was applied or permanently refused.
  mutating func finish(_ id: Int64) {
    if let index = addedEvents.firstIndex(where: { $0.id == id }) {
      addedEvents.remove(at: index)
    } else {
      finishedNumbers.append(id)
    }
  }

  /// Whether there are no unrecorded changes.
  var isEmpty: Bool { addedEvents.isEmpty && finishedNumbers.isEmpty }

  func record(into journal: Journal) throws {
    for event in addedEvents {
      try journal.recordPostponedEvent(event.id, event.pipe, event.sequence, event: event.event)
    }
    for id in finishedNumbers { try journal.removePostponedEvent(id) }
  }

  mutating func didRecord() {
    addedEvents = []
    finishedNumbers = []
  }
}
