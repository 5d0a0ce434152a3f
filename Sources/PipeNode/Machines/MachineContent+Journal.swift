import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// What a journal had of a machine beside its state.
struct RestoredMachine<State> {
  var participant: JournalContents.Participant
  var effects: [(state: State, effect: JournalContents.Effect)]
}

/// What a content keeps until its steps are recorded.
struct UnrecordedSteps {
  /// The version that is recorded; `nil` before the initial state is.
  var version: UInt64?
  /// The version at the start of this process.
  var firstVersion: UInt64 = 0
  private var lastHeld: Int64 = 0
  private(set) var held: [(id: Int64, pipe: String, sequence: UInt64, event: [UInt8])] = []
  private(set) var released: [Int64] = []
  private var replies: [(RequestReply, (RequestReply) -> Void)] = []

  /// Steps of this process.
  func taken(version: UInt64) -> UInt64 { version - firstVersion }

  mutating func restoreHeld(_ id: Int64) { lastHeld = max(lastHeld, id) }

  /// The number of the next event that is put off.
  mutating func nextHeld() -> Int64 {
    lastHeld += 1
    return lastHeld
  }

  /// An event is put off.
  mutating func hold(_ id: Int64, _ pipe: String, _ sequence: UInt64, event: [UInt8]) {
    held.append((id, pipe, sequence, event))
  }

  /// An event that was put off is done with.
  mutating func release(_ id: Int64) {
    if let index = held.firstIndex(where: { $0.id == id }) {
      held.remove(at: index)
    } else {
      released.append(id)
    }
  }

  mutating func reply(_ reply: RequestReply, to client: @escaping (RequestReply) -> Void) {
    replies.append((reply, client))
  }

  var isEmpty: Bool { held.isEmpty && released.isEmpty }

  /// All of it is recorded; returns the replies that are due.
  mutating func recorded(
    version: UInt64
  ) -> [(RequestReply, (RequestReply) -> Void)] {
    self.version = version
    held = []
    released = []
    defer { replies = [] }
    return replies
  }
}

// Records.
extension MachineContent {
  var hasUnrecorded: Bool {
    isStarted
      && (engine.version != unrecorded.version || !unrecorded.isEmpty || letters.hasUnrecorded
        || requests.hasUnrecorded || engine.hasUnrecordedEffects
        || participant?.hasUnrecorded == true)
  }

  func markPrepared(in journal: Journal) { participant?.markPrepared(in: journal) }

  func record(into journal: Journal) throws {
    if engine.version != unrecorded.version {
      try journal.moved(
        to: states.encode(engine.state), version: engine.version,
        steps: engine.version - (unrecorded.version ?? 0), cause: last.cause, time: last.time,
        incarnation: incarnation)
    }
    try recordOthers(into: journal)
  }

  /// Records what is not the state.
  @export(interface)
  private func recordOthers(into journal: Journal) throws {
    for event in unrecorded.held {
      try journal.postponed(event.id, event.pipe, event.sequence, event: event.event)
    }
    for id in unrecorded.released { try journal.unpostponed(id) }
    try letters.record(into: journal)
    try requests.record(into: journal)
    try participant?.record(into: journal)
    let effects = engine.unrecordedEffects()
    for origin in effects.ended { try journal.effectEnded(origin) }
    for effect in effects.started {
      try journal.effectStarted(
        effect.origin, state: states.encode(effect.state),
        progress: effect.progress ?? BootClock.now)
    }
  }

  func becameRecorded() {
    let replies = unrecorded.recorded(version: engine.version)
    if letters.hasUnrecorded {
      letters.recorded()
      Failpoint.hit(.letterAfter)
    }
    requests.recorded()
    if !replies.isEmpty { Failpoint.hit(.replyBefore) }
    for (reply, client) in replies { client(reply) }
    if !replies.isEmpty { Failpoint.hit(.replyAfter) }
    engine.recorded()
    participant?.becameRecorded(version: engine.version)
  }
}

// Restoring.
extension MachineContent {
  /// Reads what the journal has; throws where it is not this machine's.
  @export(interface)
  func restore() throws {
    guard let journal else { return }
    engine.recordsEffects()
    try journal.keep(stateFields: description.stateFields?.map(\.name))
    poison = try PoisonEvent(of: journal, log: log)
    guard let contents = journal.contents else { return }
    requests = RequestBook(restored: contents.requests)
    func state(_ bytes: [UInt8]) throws -> State {
      do { return try states.decode(bytes) } catch {
        throw JournalError.undecodable(
          path: journal.path, node: journal.identity.node, problem: "state \(error)")
      }
    }
    engine.restore(try state(contents.record.state), version: contents.record.version)
    restored = RestoredMachine(
      participant: contents.participant,
      effects: try contents.effects.map { (try state($0.state), $0) })
    last = (contents.record.time, contents.record.cause)
    unrecorded.version = contents.record.version
    unrecorded.firstVersion = contents.record.version
    Failpoint.hit(.restoreAfter)
  }

  /// Puts back the events that were put off, and tells of pipes that are gone.
  @export(interface)
  func restorePipes() {
    guard let journal else { return }
    marks = queues.map { journal.mark.source($0.pipe.name) }
    guard let contents = journal.contents else { return }
    // Numbers of events whose pipe is gone are not given to others.
    for consumed in contents.consumed.values {
      for event in consumed.postponed { unrecorded.restoreHeld(event.id) }
    }
    for (name, consumed) in contents.consumed where !consumed.postponed.isEmpty {
      guard
        let index = queues.firstIndex(where: { $0.pipe.name == name && $0.pipe.state.isDurable })
      else {
        log.warning(
          "pipe '\(name)' no longer leads here; \(consumed.postponed.count) events that it "
            + "postponed stay in the journal")
        continue
      }
      for (id, sequence, bytes) in consumed.postponed {
        do {
          queues[index].restore(
            .event(try events.decode(bytes)), sequence: sequence, held: id)
        } catch {
          queues[index].restore(
            .undecodable("\(error)", bytes: bytes), sequence: sequence, held: id)
        }
      }
    }
    for (name, sent) in contents.sent where !sent.events.isEmpty {
      if outs.contains(where: { $0.name == name && $0.state.isDurable }) { continue }
      log.warning(
        "pipe '\(name)' no longer leads from here; \(sent.events.count) events that were not "
          + "delivered stay in the journal")
    }
    journal.forgetContents()
  }

  /// Goes on where the last process was.
  @export(interface)
  func resume(_ restored: RestoredMachine<State>) {
    engine.resume()
    for (state, effect) in restored.effects
    where !engine.resumeEffect(of: state, effect.origin, elapsed: effect.elapsed) {
      log.warning(
        "the effect of step \(effect.origin.version) was under way, and the machine does not have it any "
          + "more")
    }
    let state = stateText
    let shown = state.utf8.count > 200 ? state.prefix(200) + "…" : state[...]
    log.note("restored at version \(engine.version) in state \(shown)")
    onEntry?(false)
  }
}
