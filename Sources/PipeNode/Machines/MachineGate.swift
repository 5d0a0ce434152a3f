import PipeMachines
import PipeWire

/// The gate of a machine: lets it take only the steps that a client requests.
///
/// The inbound pipes receive and send as usual, but their events stay in the inbox. Effects do not
/// run, and timers set no alarm. A request waits until the machine can take the step, and is
/// answered when the step is recorded.
final class MachineGate<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  private let pipes: MachinePipes<Hosted>
  private let requests: MachineRequests<Hosted>
  private let participant: MachineParticipant<Hosted>
  private let outlets: MachineOutlets
  /// The request that waits until its step is possible; `nil` if there is none.
  private var waitingRequest: (request: GateRequest, reply: Reply)?
  /// The request whose asynchronous transition is running, and the number of refusals before it.
  private var runningStep: (refusals: UInt64, reply: Reply)?

  @export(interface)
  init(
    _ core: MachineCore<Hosted>, _ pipes: MachinePipes<Hosted>, _ requests: MachineRequests<Hosted>,
    _ participant: MachineParticipant<Hosted>, _ outlets: MachineOutlets
  ) {
    self.core = core
    self.pipes = pipes
    self.requests = requests
    self.participant = participant
    self.outlets = outlets
    core.engine.effects.isSuppressed = true
    core.engine.timers?.useAlarm { _, _ in }
  }

  /// The reason with which a gated node rejects all other requests.
  static var rejection: String {
    "the node is gated: it takes only the steps of the scenario that 'orchestrator test' runs"
  }

  @export(interface)
  func take(_ request: GateRequest, reply: @escaping Reply) {
    guard waitingRequest == nil, runningStep == nil else {
      return reply(.busy("another request to the gate is waiting"))
    }
    waitingRequest = (request, reply)
    takeTurn()
  }

  /// Begins the waiting request if its step has become possible, and answers a request whose
  /// transition has ended. Called at the end of each turn of the loop.
  @export(interface)
  func takeTurn() {
    if let (refusals, reply) = runningStep {
      guard !core.engine.isInTransition else { return }
      runningStep = nil
      answer(
        core.engine.refusals > refusals ? .refused(reason: "thrown") : .accepted, to: reply)
    }
    guard let (request, reply) = waitingRequest, isPossible(request) else { return }
    waitingRequest = nil
    let refusals = core.engine.refusals
    guard let outcome = perform(request, reply: reply) else { return }
    guard !core.engine.isInTransition else { return runningStep = (refusals, reply) }
    answer(outcome, to: reply)
  }

  private func isPossible(_ request: GateRequest) -> Bool {
    switch request {
    case .look(let version):
      core.engine.version >= version && !core.engine.isInTransition
        && core.participant?.isFrozen != true
    case .takePipe(let pipe, let number):
      core.engine.canTakeInput && !outlets.isFull && hasArrived(number, in: pipe)
    case .evaluate: !core.engine.isInTransition && core.participant?.isFrozen != true
    case .takeOutside, .takeEffect, .endEffect, .fireTimer:
      core.engine.canTakeInput && !outlets.isFull
    }
  }

  private func hasArrived(_ number: UInt64, in pipe: String) -> Bool {
    guard let (index, _) = pipes.find(pipe) else { return true }
    let (waiting, postponed) = core.inbox.events(of: index)
    return (waiting + postponed).contains { $0.sequence == number }
  }

  /// Answers a request when the changes of the current turn are recorded.
  private func answer(_ outcome: GateReport.Outcome?, to reply: @escaping Reply) {
    requests.answerWhenRecorded(.gated(by: report(outcome)), to: reply)
  }

  private func report(_ outcome: GateReport.Outcome?) -> GateReport {
    GateReport(
      outcome, version: core.engine.version, state: core.stateJSON,
      effects: core.engine.effects.unfinishedNames,
      timer: core.engine.timers?.runningTimers.first?.duration.shortText,
      ins: pipes.gateReports, outs: outlets.gateReports)
  }

  // MARK: Steps

  /// Performs a request.
  /// - Returns: The outcome; `nil` if the request is answered already, or by another part.
  private func perform(
    _ request: GateRequest, reply: @escaping Reply
  ) -> GateReport.Outcome? {
    switch request {
    case .look:
      answer(nil, to: reply)
      return nil
    case .evaluate(let event):
      answer(evaluate(event), to: reply)
      return nil
    case .takeOutside(let event):
      takeOutside(event, reply: reply)
      return nil
    case .takePipe(let pipe, let number): return takeEvent(number, of: pipe, reply: reply)
    case .takeEffect(let effect, let event): return takeEvent(event, of: effect)
    case .endEffect(let effect):
      guard let (id, _) = core.engine.effects.find(named: effect) else {
        return notRunning(effect)
      }
      core.engine.process(.effectEnded(id))
      return .accepted
    case .fireTimer: return fireTimer()
    }
  }

  /// Takes an event like the event of a client's request.
  private func takeOutside(_ event: JSONValue, reply: @escaping Reply) {
    event.bytes.withUnsafeBytes { body in
      requests.request(
        body, key: RequestKey(client: 0, id: 0), oldest: 0, wantsState: false
      ) { [self] answer in
        switch answer {
        case .accepted: reply(.gated(by: report(.accepted)))
        case .refused(let refusal, _, _): reply(.gated(by: report(.refused(reason: refusal.code))))
        case .invalid: reply(.gated(by: report(.refused(reason: "undecodable"))))
        default: reply(answer)
        }
      }
    }
    // The gate rejects all other requests, so the inbox has no other one.
    if case .request(let request)? = core.inbox.nextRequest() { requests.process(request) }
  }

  private func takeEvent(
    _ number: UInt64, of pipe: String, reply: @escaping Reply
  ) -> GateReport.Outcome? {
    guard let (index, policy) = pipes.find(pipe) else {
      return .impossible(problem: "the node has no inbound pipe '\(pipe)'")
    }
    let (waiting, postponed) = core.inbox.events(of: index)
    if let event = postponed.first(where: { $0.sequence == number }) {
      // The node has tried the event in its current state, and does not try it again in this state.
      return .refused(reason: pipes.reasonToRefuse(event) ?? "noTransition")
    }
    let earlier = waiting.prefix { $0.sequence != number }
    for event in earlier where policy != .postpone || pipes.reasonToRefuse(event) == nil {
      return .impossible(
        problem: "event \(event.sequence) of pipe '\(pipe)' must be taken before this event")
    }
    for _ in earlier {
      if let event = core.inbox.next(of: index) { pipes.process(event, of: index) }
    }
    if policy == .fail, let first = waiting.first, let reason = pipes.reasonToRefuse(first) {
      // The refusal ends the node, so nothing is recorded after it. The event stays in the pipe.
      reply(.gated(by: report(.refused(reason: reason))))
    }
    guard let event = core.inbox.next(of: index) else { return nil }
    let reason = pipes.reasonToRefuse(event)
    pipes.process(event, of: index)
    if policy == .fail, reason != nil { return nil }
    return reason.map { .refused(reason: $0) } ?? .accepted
  }

  private func evaluate(_ event: JSONValue) -> GateReport.Outcome {
    guard let content = try? core.events.decode(event.bytes) else {
      return .refused(reason: "undecodable")
    }
    if case .refused(let refusal) = core.engine.machine.step(core.engine.state, content) {
      return .refused(reason: refusal.code)
    }
    return .accepted
  }

  private func takeEvent(_ event: JSONValue, of effect: String) -> GateReport.Outcome? {
    guard let (id, kind) = core.engine.effects.find(named: effect) else {
      return notRunning(effect)
    }
    let content: Hosted.Event
    do {
      content = try core.events.decode(event.bytes)
    } catch { return .refused(reason: "undecodable") }
    var outcome = GateReport.Outcome.accepted
    if core.reasonToRefuse(unsynchronized: content) == nil,
      case .refused(let refusal) = core.engine.machine.step(core.engine.state, content)
    {
      outcome = .refused(reason: refusal.code)
    }
    participant.process(
      .effectEvent(content, effect: id, kind: kind, reply: EffectReply { _ in }))
    return outcome
  }

  private func notRunning(_ effect: String) -> GateReport.Outcome {
    .impossible(problem: "effect '\(effect)' is not running")
  }

  /// Fires the timer that is due first. If its transition is refused, fires the next timer.
  private func fireTimer() -> GateReport.Outcome {
    guard let timers = core.engine.timers else {
      return .impossible(problem: "the machine has no timers")
    }
    let version = core.engine.version
    while let timer = timers.runningTimers.first {
      core.engine.process(timers.dueInput)
      if core.engine.version != version { return .fired(delay: timer.duration.shortText) }
    }
    return .impossible(problem: "no timer is running")
  }
}
