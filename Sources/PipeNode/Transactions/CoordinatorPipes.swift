import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// The pipes that lead to composites. The events of one are asked for one after the other, and each
/// under a number of its own, so that one that comes again is not taken twice.
final class CoordinatorPipes {
  private unowned let coordinator: CoordinatorContent
  private let log: NodeLog
  private var pipes: [CoordinatorPipe] = []
  private var letters: DeadLetters

  /// How long an event waits whose participants could not be asked.
  private static let pause: Duration = .milliseconds(50)

  init(of coordinator: CoordinatorContent, letters: DeadLetters, log: NodeLog) {
    self.coordinator = coordinator
    self.letters = letters
    self.log = log
  }

  func connect(_ ins: [InPipe]) { pipes = ins.map { CoordinatorPipe($0) } }

  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError) {
    guard let index = pipes.firstIndex(where: { $0.pipe === pipe }) else { return }
    try events.forEach { pipes[index].append(Array($0), sequence: $1) }
  }

  var hasWork: Bool { pipes.contains(where: \.hasWork) }

  func takeTurn() {
    for index in pipes.indices {
      // Here and not when it came, which was after a record: the pipe's number must be recorded before
      // it is acknowledged.
      if let reply = pipes[index].takeReply() { dispose(of: index, after: reply) }
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

  /// The event that was asked for is done with, or asked for again after a while.
  private func dispose(of index: Int, after reply: RequestReply) {
    guard let entry = pipes[index].asked else { return }
    let pipe = pipes[index].pipe
    let problem: String
    switch reply {
    case .synchronized(.atomic(.committed)): return finish(entry, of: index)
    case .synchronized(.atomic(.refused(let withheld))):
      problem = "refused: " + withheld.map(\.description).joined(separator: "; ")
    case .invalid(let text): problem = text
    case .synchronized, .busy, .unavailable, .forgotten, .done, .moved, .refused, .explained:
      // None has moved, and not because of a state.
      pipes[index].pause()
      coordinator.renew(pipes[index].id(of: entry))
      return coordinator.schedule(after: Self.pause) { [weak self] in
        self?.pipes[index].resume()
      }
    }
    let refused = RefusedEvent(
      pipe: pipe.name, sequence: entry.sequence, event: JSONValue(shown: entry.event),
      reason: problem)
    if let failure = refused.dispose(pipe.onRefused, in: &letters, log: log) {
      coordinator.onEnd?(failure)
    } else {
      finish(entry, of: index)
    }
  }

  private func finish(_ entry: CoordinatorPipe.Entry, of index: Int) {
    pipes[index].finish()
    pipes[index].pipe.finish(entry.sequence, of: entry.stream)
  }

  func fill(_ status: inout NodeStatus) {
    letters.fill(&status)
    status.ins = pipes.map(\.status)
  }

  // MARK: Dead letters

  /// Asks for the event of a dead letter once more, or drops it.
  func deadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply) {
    guard let letter = letters[id] else { return reply(.invalid("it has no dead letter \(id)")) }
    if drops {
      letters.remove(id)
      // Told with the record that this turn makes, or after it: a letter that comes back is harmless.
      return reply(.done)
    }
    coordinator.ask(letter.event.bytes, through: letter.pipe, .try, as: nil) { [weak self] answer in
      if case .synchronized(.atomic(.committed)) = answer { self?.letters.remove(id) }
      reply(answer)
    }
  }

  var hasUnrecorded: Bool { letters.hasUnrecorded }

  func record(into journal: Journal) throws { try letters.record(into: journal) }

  func becameRecorded() { letters.recorded() }
}

/// One of these pipes.
private struct CoordinatorPipe {
  struct Entry {
    var sequence: UInt64
    /// The numbering that it came in; its sender may have begun another one since.
    var stream: UInt64
    var event: [UInt8]
  }

  let pipe: InPipe
  private var waiting = Queue<Entry>()
  /// The first of them, while it is asked for.
  private(set) var asked: Entry?
  /// What has become of it.
  private var reply: RequestReply?
  /// Whether the first one is left alone for a while.
  private var isPausing = false

  init(_ pipe: InPipe) { self.pipe = pipe }

  func id(of entry: Entry) -> RequestID {
    RequestID(pipe: pipe.name, stream: entry.stream, sequence: entry.sequence)
  }

  mutating func append(_ event: [UInt8], sequence: UInt64) {
    waiting.append(Entry(sequence: sequence, stream: pipe.state.stream, event: event))
  }

  /// Whether there is something to do.
  var hasWork: Bool { reply != nil || asked == nil && !isPausing && !waiting.isEmpty }

  /// Takes the next event to ask for.
  mutating func next() -> Entry? {
    guard asked == nil, !isPausing else { return nil }
    asked = waiting.popFirst()
    return asked
  }

  mutating func answered(_ reply: RequestReply) { self.reply = reply }

  mutating func takeReply() -> RequestReply? {
    defer { reply = nil }
    return reply
  }

  mutating func finish() { asked = nil }

  /// The event that was asked for waits to be asked for again.
  mutating func pause() {
    if let asked { waiting.prepend(contentsOf: [asked]) }
    asked = nil
    isPausing = true
  }

  mutating func resume() { isPausing = false }

  var status: NodeStatus.Pipe {
    NodeStatus.Pipe(
      name: pipe.name, events: pipe.state.received, applied: pipe.state.applied,
      waiting: waiting.count + (asked == nil ? 0 : 1), capacity: Int(pipe.state.capacity))
  }
}
