import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// The inbound pipes of composites. Requests the events of a pipe one after another. Each request
/// has its own number, so a repeated event is not applied twice.
final class CoordinatorPipes {
  private unowned let coordinator: CoordinatorContent
  private let log: NodeLog
  private var pipes: [CoordinatorPipe] = []
  private var deadLetters: DeadLetters
  /// The event that a gated coordinator may take; `nil` if it may take none.
  private var permission: (pipe: String, number: UInt64, answer: (GateReport.Outcome) -> Void)?
  private var isGated = false

  /// The pause before the next attempt if an attempt failed because not all participants could
  /// answer.
  private static let retryPause: Duration = .milliseconds(50)

  init(of coordinator: CoordinatorContent, deadLetters: DeadLetters, log: NodeLog) {
    self.coordinator = coordinator
    self.deadLetters = deadLetters
    self.log = log
  }

  func connect(_ ins: [InPipe]) { pipes = ins.map { CoordinatorPipe($0) } }

  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError) {
    guard let index = pipes.firstIndex(where: { $0.pipe === pipe }) else { return }
    try events.forEach { pipes[index].append(Array($0), sequence: $1) }
  }

  var hasWork: Bool {
    isGated ? pipes.contains { $0.hasReply } : pipes.contains(where: \.hasWork)
  }

  // MARK: Gates

  /// Lets the pipes request only the events that ``permit(_:of:answer:)`` names.
  func gate() { isGated = true }

  /// Requests the event of a pipe with this number as soon as it has arrived.
  func permit(
    _ number: UInt64, of pipe: String, answer: @escaping (GateReport.Outcome) -> Void
  ) {
    guard let waiting = pipes.first(where: { $0.pipe.name == pipe }) else {
      return answer(.impossible(problem: "the composite has no inbound pipe '\(pipe)'"))
    }
    if let first = waiting.firstNumber, first < number {
      return answer(
        .impossible(problem: "event \(first) of pipe '\(pipe)' must be taken before this event"))
    }
    permission = (pipe, number, answer)
    takeTurn()
  }

  /// Answers the request of the gate.
  private func answerGate(_ outcome: GateReport.Outcome) {
    guard let permission else { return }
    self.permission = nil
    permission.answer(outcome)
  }

  /// The inbound pipes with their events, for the report of a gate.
  var gateReports: [GateReport.PipeEnd] { pipes.map(\.gateReport) }

  func takeTurn() {
    for index in pipes.indices {
      // Handles the reply at the beginning of a turn. So the turn records the progress of the pipe
      // before the pipe acknowledges the event.
      if let reply = pipes[index].takeReply() { dispose(of: index, after: reply) }
      if isGated {
        guard let permission, permission.pipe == pipes[index].pipe.name,
          pipes[index].firstNumber == permission.number
        else { continue }
      }
      if let entry = pipes[index].next() { ask(entry, of: index) }
    }
  }

  private func ask(_ entry: CoordinatorPipe.Entry, of index: Int) {
    let pipe = pipes[index].pipe
    coordinator.ask(
      entry.event, through: pipe.name, pipe.onRefused == .postpone ? .await(nil) : .try,
      as: pipes[index].id(of: entry)
    ) { [weak self] in self?.pipes[index].answered($0) }
  }

  /// Handles the reply to the requested event: finishes the event, or requests it again after a
  /// pause.
  private func dispose(of index: Int, after reply: RequestReply) {
    guard let entry = pipes[index].requested else { return }
    let pipe = pipes[index].pipe
    let refusalReason: String
    var gateOutcome = GateReport.Outcome.refused(reason: "undecodable")
    switch reply {
    case .synchronized(.atomic(.committed)):
      finish(entry, of: index)
      return answerGate(.accepted)
    case .synchronized(.atomic(.refused(let refusals)))
    where pipe.onRefused == .ignore && refusals.allSatisfy(\.reason.canBeIgnored):
      pipe.ignoredCount += 1
      finish(entry, of: index)
      return answerGate(Self.gateOutcome(refusals))
    case .synchronized(.atomic(.refused(let refusals))):
      gateOutcome = Self.gateOutcome(refusals)
      refusalReason = "refused: " + refusals.map(\.description).joined(separator: "; ")
    case .invalid(let text): refusalReason = text
    case .synchronized, .busy, .unavailable, .forgotten, .done, .accepted, .refused, .explained,
      .gated:
      // No participant has applied the event, and the refusal did not depend on a participant's
      // state. So the event is tried again after a pause.
      pipes[index].pause()
      coordinator.allowRetry(pipes[index].id(of: entry))
      return coordinator.schedule(after: Self.retryPause) { [weak self] in
        self?.pipes[index].resume()
      }
    }
    let refused = RefusedEvent(
      pipe: pipe.name, sequence: entry.sequence, event: JSONValue(shown: entry.event),
      reason: refusalReason)
    answerGate(gateOutcome)
    if let failure = refused.dispose(pipe.onRefused, in: &deadLetters, log: log) {
      coordinator.onEnd?(failure)
    } else {
      finish(entry, of: index)
    }
  }

  private static func gateOutcome(_ refusals: [BlockingParticipant]) -> GateReport.Outcome {
    .refusedByParticipants(
      reasons: Dictionary(refusals.map { ($0.participant, $0.reason.code) }) { first, _ in first })
  }

  private func finish(_ entry: CoordinatorPipe.Entry, of index: Int) {
    pipes[index].finish()
    pipes[index].pipe.finish(entry.sequence, of: entry.stream)
  }

  func fill(_ status: inout NodeStatus) {
    deadLetters.fill(&status)
    status.ins = pipes.map(\.status)
  }

  // MARK: Dead letters

  /// Requests the event of a dead letter again, or drops the dead letter.
  func resolveDeadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply) {
    guard let deadLetter = deadLetters[id] else {
      return reply(.invalid(DeadLetter.unknownMessage(id: id)))
    }
    if drops {
      deadLetters.remove(id)
      // Answers before the removal is recorded. If the removal is lost, the dead letter only comes
      // back, which is harmless.
      return reply(.done)
    }
    coordinator.ask(deadLetter.event.bytes, through: deadLetter.pipe, .try, as: nil) {
      [weak self] answer in
      if case .synchronized(.atomic(.committed)) = answer { self?.deadLetters.remove(id) }
      reply(answer)
    }
  }

  var hasUnrecordedChanges: Bool { deadLetters.hasUnrecordedChanges }

  func record(into journal: Journal) throws { try deadLetters.record(into: journal) }

  func didRecord() { deadLetters.recorded() }
}

/// An inbound pipe of a composite.
private struct CoordinatorPipe {
  struct Entry {
    var sequence: UInt64
    /// The id of the numbering that `sequence` belongs to. The sender may have begun another stream
    /// after it sent the event.
    var stream: UInt64
    var event: [UInt8]
  }

  let pipe: InPipe
  private var waiting = Queue<Entry>()
  /// The event whose request is in progress; `nil` if there is none.
  private(set) var requested: Entry?
  /// The answer to the request, until it is handled.
  private var reply: RequestReply?
  /// Whether the pipe waits before it requests its next event.
  private var isPaused = false

  init(_ pipe: InPipe) { self.pipe = pipe }

  func id(of entry: Entry) -> RequestID {
    RequestID(pipe: pipe.name, stream: entry.stream, sequence: entry.sequence)
  }

  mutating func append(_ event: [UInt8], sequence: UInt64) {
    waiting.append(Entry(sequence: sequence, stream: pipe.state.stream, event: event))
  }

  /// Whether there is a reply to handle, or an event to request.
  var hasWork: Bool { reply != nil || requested == nil && !isPaused && !waiting.isEmpty }

  /// Removes and returns the next event to request. Returns `nil` while a request is in progress or
  /// the pipe pauses.
  mutating func next() -> Entry? {
    guard requested == nil, !isPaused else { return nil }
    requested = waiting.popFirst()
    return requested
  }

  var hasReply: Bool { reply != nil }

  /// The number of the event that would be requested next; `nil` if there is none.
  var firstNumber: UInt64? { (requested ?? waiting.first)?.sequence }

  var gateReport: GateReport.PipeEnd {
    var queue = waiting
    return GateReport.PipeEnd(
      pipe: pipe.name, stream: pipe.state.stream, last: pipe.state.lastReceived,
      events: ((requested.map { [$0] } ?? []) + queue.removeAll()).map {
        GateReport.Event(number: $0.sequence, event: JSONValue(shown: $0.event))
      })
  }

  mutating func answered(_ reply: RequestReply) { self.reply = reply }

  mutating func takeReply() -> RequestReply? {
    defer { reply = nil }
    return reply
  }

  mutating func finish() { requested = nil }

  /// Puts the requested event back into the queue, and pauses the pipe.
  mutating func pause() {
    if let requested { waiting.prepend(contentsOf: [requested]) }
    requested = nil
    isPaused = true
  }

  mutating func resume() { isPaused = false }

  var status: NodeStatus.Pipe {
    NodeStatus.Pipe(
      name: pipe.name, events: pipe.state.lastReceived, applied: pipe.state.lastApplied,
      waiting: waiting.count + (requested == nil ? 0 : 1), capacity: Int(pipe.state.capacity))
  }
}
