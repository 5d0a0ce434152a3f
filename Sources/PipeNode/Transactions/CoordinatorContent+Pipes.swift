import PipeMachines
import PipeSupport
import PipeWire

/// The events of one pipe that leads to a composite. They are asked for one after the other, and each
/// under a number of its own, so that one that comes again is not taken twice.
struct CoordinatorPipe {
  struct Entry {
    var sequence: UInt64
    /// The numbering that it came in; its sender may have begun another one since.
    var stream: UInt64
    var event: [UInt8]
  }

  let pipe: InPipe
  private(set) var waiting = Queue<Entry>()
  /// The first of them, while it is asked for.
  private(set) var asked: Entry?
  /// What has become of it.
  var reply: RequestReply?
  /// Whether the first one is left alone for a while.
  var isPausing = false

  init(_ pipe: InPipe) { self.pipe = pipe }

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

  /// The event that was asked for is done with.
  mutating func finish() { asked = nil }

  /// The event that was asked for is asked for again after a while.
  mutating func pause() {
    if let asked { waiting.prepend(contentsOf: [asked]) }
    asked = nil
    isPausing = true
  }

  var status: NodeStatus.Pipe {
    NodeStatus.Pipe(
      name: pipe.name, events: pipe.state.received, applied: pipe.state.applied,
      waiting: waiting.count + (asked == nil ? 0 : 1), capacity: Int(pipe.state.capacity))
  }
}

// Events that pipes bring.
extension CoordinatorContent {
  /// How long an event waits whose participants could not be asked.
  private static var pause: Duration { .milliseconds(50) }

  func accept(
    _ body: UnsafeRawBufferPointer, count: UInt32, skipping: Int, first: UInt64, from pipe: InPipe
  ) throws(FrameError) {
    guard let index = pipes.firstIndex(where: { $0.pipe === pipe }) else { return }
    var place = 0
    var sequence = first
    try EventBatch.forEach(in: body, count: count) { bytes in
      defer { place += 1 }
      guard place >= skipping else { return }
      pipes[index].append(Array(bytes), sequence: sequence)
      sequence += 1
    }
  }

  var hasWork: Bool { isStarted && pipes.contains(where: \.hasWork) }

  func takeTurn() {
    guard isStarted else { return }
    for index in pipes.indices {
      // Here and not when it came, which was after a record: the pipe's number must be recorded before
      // it is acknowledged.
      if let reply = pipes[index].reply {
        pipes[index].reply = nil
        settle(reply, of: index)
      }
      if let entry = pipes[index].next() { ask(entry, of: index) }
    }
  }

  private func id(_ entry: CoordinatorPipe.Entry, of index: Int) -> RequestID {
    RequestID(
      caller: "pipe/\(pipes[index].pipe.name)/\(entry.stream)", number: entry.sequence)
  }

  private func ask(_ entry: CoordinatorPipe.Entry, of index: Int) {
    let pipe = pipes[index].pipe
    let composite = plan?.pipes[pipe.name] ?? ""
    do {
      let request = try request(
        TransactionBody(composite: composite, event: entry.event).bytes,
        pipe.onRefused == .postpone ? .await(nil) : .try)
      let id = id(entry, of: index)
      coordinator.settle(id.caller, before: entry.sequence)
      keep(id) { [weak self] reply in self?.pipes[index].reply = reply }
      perform(coordinator.request(id, request))
    } catch {
      pipes[index].reply = .invalid("\(error)")
    }
  }

  private func settle(_ reply: RequestReply, of index: Int) {
    guard let entry = pipes[index].asked else { return }
    let (sequence, event) = (entry.sequence, entry.event)
    let pipe = pipes[index].pipe
    let problem: String
    switch reply {
    case .synchronized(.atomic(.committed)):
      pipes[index].finish()
      return pipe.finish(sequence, of: entry.stream)
    case .synchronized(.atomic(.refused(let withheld))):
      problem = "refused: " + withheld.map(\.description).joined(separator: "; ")
    case .invalid(let text): problem = text
    case .synchronized, .busy, .unavailable, .done, .moved, .refused, .explained:
      // None has moved, and not because of a state.
      coordinator.renew(id(entry, of: index))
      pipes[index].pause()
      services?.loop.schedule(after: Self.pause, for: self) { $0.pipes[index].isPausing = false }
      return
    }
    let json =
      (try? JSONValue(parsing: event)) ?? .string(String(decoding: event, as: UTF8.self))
    let refused = RefusedEvent(pipe: pipe.name, sequence: sequence, event: json, reason: problem)
    if let failure = refused.dispose(pipe.onRefused, in: &letters, log: log) {
      onEnd?(failure)
      return
    }
    pipes[index].finish()
    pipe.finish(sequence, of: entry.stream)
  }
}

// Dead letters.
extension CoordinatorContent {
  func deadLetter(_ id: UInt64, drops: Bool, reply: @escaping (RequestReply) -> Void) {
    guard let letter = letters[id] else { return reply(.invalid("it has no dead letter \(id)")) }
    if drops {
      letters.remove(id)
      // Told with the record that this turn makes, or after it: a letter that comes back is harmless.
      return reply(.done)
    }
    do {
      let composite = plan?.pipes[letter.pipe] ?? ""
      let request = try request(
        TransactionBody(composite: composite, event: letter.event.bytes).bytes, .try)
      let number = unnamed()
      keep(number) { [weak self] answer in
        if case .synchronized(.atomic(.committed)) = answer { self?.letters.remove(id) }
        reply(answer)
      }
      perform(coordinator.request(number, request))
    } catch {
      reply(.invalid("\(error)"))
    }
  }
}
