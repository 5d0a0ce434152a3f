import PipeJournal
import PipeMachines
import PipeSystem
import PipeWire

/// An input that a client has requested.
enum ClientInput<Event> {
  /// Apply an event.
  case event(Event, RequestKey, wantsState: Bool)
  /// Apply the event of a dead letter, and remove the dead letter if the event is accepted.
  case deadLetter(UInt64, Event, reply: Reply)
}

/// Handles the events that clients send to a machine, and the dead letters that clients resend.
///
/// Each request is answered once. If the machine has accepted the event, the answer is sent after
/// the step is recorded.
final class MachineRequests<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  private let outlets: MachineOutlets
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var registry: RequestRegistry
  /// The replies that will be sent when the current changes are recorded.
  @exclusivity(unchecked)
  private var pendingReplies: [(RequestReply, Reply)] = []
  /// The request whose step is in progress; `nil` if there is none.
  @exclusivity(unchecked)
  private(set) var currentRequest: RequestKey?
  /// Whether the poison event has already become a dead letter. If the client repeats the request,
  /// the event must not become another dead letter.
  @exclusivity(unchecked)
  private var isPoisonDeadLettered = false

  /// The maximum number of requests that wait for their step. Unit: requests.
  private static var waitingRequestLimit: Int { 1_024 }

  @export(interface)
  init(_ core: MachineCore<Hosted>, _ outlets: MachineOutlets) {
    self.core = core
    self.outlets = outlets
    let contents = core.journal?.contents
    registry = RequestRegistry(
      restored: contents?.requests ?? [],
      lastForgottenNumber: contents?.highestForgottenRequestNumber ?? 0)
  }

  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64, wantsState: Bool,
    reply: @escaping Reply
  ) {
    let event: Hosted.Event
    do { event = try core.events.decode(body) } catch { return reply(.invalid("\(error)")) }
    if let problem = core.reasonToRefuse(unsynchronized: event) { return reply(.invalid(problem)) }
    var key = key
    let hasCapacity = core.inbox.requestCount < Self.waitingRequestLimit
    switch registry.admit(&key, oldest: oldest, hasCapacity: hasCapacity, reply: reply) {
    case .answered(let answer):
      answerWhenRecorded(wantsState ? answer : answer.withoutState, to: reply)
    case .waiting: break
    case .full:
      reply(
        .unavailable(
          "the request queue is full: \(Self.waitingRequestLimit) requests "
            + "are waiting"))
    case .forgotten(let last): reply(.forgotten(through: last))
    case .new:
      if let full = outlets.fullPipeNames.first {
        answer(key, .busy("pipe '\(full)' is full"))
      } else if let poison = core.poisonEvent, poison.matches(key.source, key.id) {
        if !isPoisonDeadLettered {
          _ = core.dispose(
            of: core.json(of: event), key.id, from: "request", because: poison.reason, .record)
          isPoisonDeadLettered = true
        }
        let refusal = Refusal.thrown(poison.reason + "; the event is now a dead letter")
        let answer = RequestReply.refused(
          refusal, version: core.engine.version, state: wantsState ? core.stateBytes : [])
        guard let reply = registry.finish(key, answer, isDeadLetter: true) else { return }
        answerWhenRecorded(answer, to: reply)
      } else {
        core.inbox.append(.event(event, key, wantsState: wantsState))
      }
    }
  }

  /// Rejects a request whose event belongs to no instance of a keyed node.
  func reject(_ key: RequestKey, because reason: String) { answer(key, .invalid(reason)) }

  /// Answers a request that is not applied.
  func answer(_ key: RequestKey, _ reply: RequestReply) {
    registry.finish(key, reply)?(reply)
  }

  @export(interface)
  func resolveDeadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply) {
    guard let found = core.deadLetters[id] else {
      return reply(.invalid(DeadLetter.unknownMessage(id: id)))
    }
    if let effect = EffectOrigin(ofDeadLetterFrom: found.pipe, found.sequence) {
      return resolveDeadLetter(id, of: effect, drops: drops, reply)
    }
    if drops {
      core.deadLetters.remove(id)
      return answerWhenRecorded(.done, to: reply)
    }
    do {
      let event = try Hosted.decodeEvent(
        found.event.bytes, schema: found.schema ?? 1, by: core.events)
      if let problem = core.reasonToRefuse(unsynchronized: event) {
        return reply(.invalid(problem))
      }
      core.inbox.append(.deadLetter(id, event, reply: reply))
    } catch {
      reply(.invalid("\(error)"))
    }
  }

  /// Runs a parked effect again, or discards the effect.
  @export(interface)
  private func resolveDeadLetter(
    _ id: UInt64, of effect: EffectOrigin, drops: Bool, _ reply: @escaping Reply
  ) {
    guard core.isStarted else { return reply(.unavailable("the node has not started yet")) }
    if drops {
      core.discard(effect)
    } else if !core.unpark(effect) {
      return reply(
        .invalid(
          "the machine has cancelled the \(effect.noun) of step \(effect.version); dead letter \(id) can "
            + "only be dropped"
        ))
    }
    if !drops { core.resentEffect = effect }
    core.deadLetters.remove(id)
    answerWhenRecorded(.done, to: reply)
  }

  func process(_ input: ClientInput<Hosted.Event>) {
    switch input {
    case .event(let event, let key, let wantsState):
      let marker = key.client == 0 ? nil : core.journal?.marker.sourceMarker(key.source)
      marker?.begin(key.id)
      currentRequest = key
      core.engine.take(event, cause: "request") { [self] outcome in
        currentRequest = nil
        marker?.end()
        if let onRefusal = core.onRefusal, case .refused(let refusal) = outcome {
          onRefusal(
            RefusedInput(
              core.json(of: event),
              because: "refused: " + (refusal.error.map { "thrown: \($0)" } ?? refusal.code),
              from: .request(key)))
        }
        let answer = answer(to: outcome, wantsState: wantsState)
        guard let reply = registry.finish(key, answer) else { return }
        answerWhenRecorded(answer, to: reply)
      }
    case .deadLetter(let id, let event, let reply): apply(event, ofDeadLetter: id, reply)
    }
  }

  @export(interface)
  private func apply(_ event: Hosted.Event, ofDeadLetter id: UInt64, _ reply: @escaping Reply) {
    guard core.deadLetters[id] != nil else {
      return reply(.invalid(DeadLetter.unknownMessage(id: id)))
    }
    core.engine.take(event, cause: "deadLetter \(id)") { [self] outcome in
      if case .accepted = outcome { core.deadLetters.remove(id) }
      answerWhenRecorded(answer(to: outcome, wantsState: true), to: reply)
    }
  }

  private func answer(to outcome: StepOutcome<Hosted.State>, wantsState: Bool) -> RequestReply {
    switch outcome {
    case .accepted(_, let version):
      return .accepted(version: version, state: wantsState ? core.stateBytes : [])
    case .refused(let refusal):
      return .refused(
        refusal, version: core.engine.version, state: wantsState ? core.stateBytes : [])
    case .pending:
      // This case does not occur: the engine does not report `pending` to callers that wait for the
      // end of the step.
      return .unavailable("the step has not ended")
    }
  }

  /// Rejects the waiting requests, because the node stops.
  @export(interface)
  func stop() {
    let unavailable = RequestReply.unavailable("the node is stopping")
    for case .deadLetter(_, _, let reply) in core.inbox.removeRequests() { reply(unavailable) }
    for reply in registry.takeWaiting() { reply(unavailable) }
  }

  // MARK: Recording and sending answers

  func answerWhenRecorded(_ reply: RequestReply, to client: @escaping Reply) {
    pendingReplies.append((reply, client))
  }

  var hasUnrecordedChanges: Bool { registry.hasUnrecordedChanges }

  func record(into journal: Journal) throws {
    for record in registry.takeRecords() {
      switch record {
      case .answered(let key, let version, let state):
        try journal.recordAnswer(key, version: version, state: state)
      case .acknowledged(let client, let oldest):
        try journal.recordAcknowledgement(of: client, before: oldest)
      case .clientForgotten(let client, let last):
        try journal.recordForgottenClient(client, through: last)
      }
    }
  }

  /// Sends the pending replies. Called when all steps are recorded or, if there is no journal, at
  /// the end of the turn.
  func didRecord() {
    let dueReplies = pendingReplies
    pendingReplies = []
    // Without a journal, `record(into:)` is not called and does not remove the registry's records.
    if core.journal == nil { _ = registry.takeRecords() }
    guard !dueReplies.isEmpty else { return }
    Failpoint.hit(.replyBefore)
    for (reply, client) in dueReplies { client(reply) }
    Failpoint.hit(.replyAfter)
  }
}
