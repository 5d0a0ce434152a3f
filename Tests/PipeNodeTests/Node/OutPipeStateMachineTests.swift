import PipeNode
import PipeWire
import Testing

@Suite("The sending end of a pipe")
struct OutPipeStateMachineTests {
  typealias Action = OutPipeStateMachine.Action

  private func pipe(capacity: Int = 8, events: Int = 0) -> OutPipeStateMachine {
    var pipe = OutPipeStateMachine(capacity: capacity, stream: 7)
    pipe.enqueue(events)
    return pipe
  }

  private func open(_ first: UInt64, session: UInt64 = 1, lost: UInt32 = 0) -> Action {
    .open(FrameHeader(.open, count: lost, sequence: first, number: session), stream: 7)
  }

  @Test("A sender sends nothing before a receiver welcomes it")
  func waits() {
    var pipe = pipe(events: 3)
    #expect(pipe.flush() == [])
    #expect(pipe.phase == .waiting)
    #expect(pipe.pending == 3)
  }

  @Test("A sender opens with its first event and sends the waiting events in one batch")
  func opens() {
    var pipe = pipe(events: 3)
    let actions = pipe.welcomed(session: 1, received: 0, window: 8)
    #expect(actions.first == open(1))
    #expect(actions.batches == [1...3])
    #expect(pipe.flush() == [])
  }

  @Test("A sender sends as far as its credit reaches, and continues with more credit")
  func credit() {
    var pipe = pipe(capacity: 8, events: 8)
    let first = pipe.welcomed(session: 1, received: 0, window: 4)
    #expect(first.batches == [1...4])
    #expect(pipe.flush().batches == [])
    #expect(pipe.credited(session: 1, applied: 2, window: 4).batches == [5...6])
    #expect(pipe.credited(session: 1, applied: 4, window: 4).batches == [7...8])
    #expect(pipe.acknowledged == 4)
  }

  @Test("A pipe is full at its capacity, and no longer once the receiver has caught up")
  func full() {
    var pipe = pipe(capacity: 4, events: 3)
    #expect(!pipe.isFull)
    pipe.enqueue(1)
    #expect(pipe.isFull)
    _ = pipe.welcomed(session: 1, received: 0, window: 4)
    #expect(pipe.isFull)
    _ = pipe.credited(session: 1, applied: 1, window: 4)
    #expect(!pipe.isFull)
  }

  @Test(
    "A sender whose receiver has capacity for one event sends events one at a time",
    arguments: [1, 2, 3])
  func small(capacity: Int) {
    var pipe = pipe(capacity: capacity)
    _ = pipe.welcomed(session: 1, received: 0, window: UInt32(capacity))
    for number in UInt64(1)...20 {
      pipe.enqueue(1)
      #expect(pipe.flush().batches == [number...number])
      _ = pipe.credited(session: 1, applied: number, window: UInt32(capacity))
      #expect(pipe.pending == 0)
    }
  }

  @Test("After a broken connection, the same receiver gets the events that it does not hold")
  func resend() {
    var pipe = pipe(capacity: 8, events: 8)
    _ = pipe.welcomed(session: 1, received: 0, window: 8)
    let again = pipe.welcomed(session: 1, received: 4, window: 8)
    #expect(again.first == open(5))
    #expect(again.batches == [5...8])
  }

  @Test("Events delivered to another receiver are not lost to a receiver that the pipe returns to")
  func turned() {
    func opening(acknowledged: UInt64) -> [Action] {
      var pipe = OutPipeStateMachine(
        capacity: 8, stream: 7, acknowledged: acknowledged, redirectedAfter: 5,
        events: [Array("1".utf8)])
      return pipe.welcomed(session: 1, stream: 7, received: 2, window: 8, isDurable: true)
    }
    let elsewhere = FrameHeader(
      .open, flags: InPipeStateMachine.redirectedFlag, count: 3, sequence: 6, number: 1)
    #expect(opening(acknowledged: 5).first == .open(elsewhere, stream: 7))
    // The former receiver had acknowledged the event.
    #expect(
      Array(opening(acknowledged: 6).prefix(2))
        == [.report(lost: 1, through: 6), open(7, lost: 4)])
    var receiver = InPipeStateMachine(
      capacity: 8, session: 1, stream: 7, applied: 2, postponed: 0, senderClosed: false)
    let actions = receiver.opened(session: 1, stream: 7, first: 6, lost: 3, wasRedirected: true)
    #expect(actions.allSatisfy { if case .report = $0 { false } else { true } })
    #expect(receiver.arrived(session: 1, first: 6, count: 1) == [.take(from: 0, first: 6)])
  }

  @Test("A sender sends nothing into a lost connection")
  func disconnected() {
    var pipe = pipe(capacity: 8, events: 2)
    _ = pipe.welcomed(session: 1, received: 0, window: 8)
    pipe.disconnected()
    pipe.enqueue(3)
    #expect(pipe.flush() == [])
    #expect(pipe.credited(session: 1, applied: 2, window: 8) == [])
    // The same receiver, which had taken the events, and then another one, which has not.
    #expect(pipe.welcomed(session: 1, received: 2, window: 8).batches == [3...5])
    pipe.disconnected()
    #expect(
      pipe.welcomed(session: 2, received: 0, window: 8).first == .report(lost: 5, through: 5))
  }

  @Test(
    "Events in flight to a crashed receiver are reported lost, and the rest goes to the next one")
  func lostWithReceiver() {
    var pipe = pipe(capacity: 8, events: 4)
    _ = pipe.welcomed(session: 1, received: 0, window: 8)
    _ = pipe.credited(session: 1, applied: 1, window: 8)
    pipe.enqueue(2)
    let actions = pipe.welcomed(session: 2, received: 0, window: 8)
    #expect(actions.first == .report(lost: 3, through: 4))
    #expect(actions.dropFirst().first == open(5, session: 2, lost: 3))
    #expect(actions.batches == [5...6])
  }

  @Test("A receiver that stops in order loses no events: the next one gets the unapplied ones")
  func receiverClosed() {
    var pipe = pipe(capacity: 8, events: 6)
    _ = pipe.welcomed(session: 1, received: 0, window: 8)
    pipe.receiverClosed(session: 1, applied: 3)
    #expect(pipe.phase == .waiting)
    let actions = pipe.welcomed(session: 2, received: 0, window: 8)
    // The batch holds applied events. The receiver ignores events before the number in `open`.
    #expect(actions.first == open(4, session: 2))
    #expect(actions.batches.last?.upperBound == 6)
    #expect(actions.reports == [])
  }

  @Test("A goodbye that arrives after the disconnection still counts")
  func goodbyeAfterDisconnection() {
    var pipe = pipe(capacity: 8, events: 6)
    _ = pipe.welcomed(session: 1, received: 0, window: 8)
    pipe.disconnected()
    pipe.receiverClosed(session: 1, applied: 3)
    #expect(pipe.acknowledged == 3)
    let actions = pipe.welcomed(session: 2, received: 0, window: 8)
    #expect(actions.first == open(4, session: 2))
    #expect(actions.reports == [])
  }

  @Test("A sender says goodbye with the number of its last event")
  func close() {
    var pipe = pipe(events: 2)
    #expect(pipe.close() == [])
    var opened = self.pipe(events: 2)
    _ = opened.welcomed(session: 3, received: 0, window: 8)
    #expect(opened.close() == [.send(FrameHeader(.close, sequence: 2, number: 3))])
    #expect(opened.welcomed(session: 4, received: 0, window: 8) == [])
  }

  @Test("Credit and goodbyes of another session, or beyond the sent events, change nothing")
  func stale() {
    var pipe = pipe(events: 4)
    _ = pipe.welcomed(session: 2, received: 0, window: 4)
    #expect(pipe.credited(session: 1, applied: 4, window: 9) == [])
    #expect(pipe.credited(session: 2, applied: 5, window: 9) == [])
    pipe.receiverClosed(session: 1, applied: 4)
    #expect(pipe.acknowledged == 0)
    #expect(pipe.phase == .open(session: 2))
  }

  @Test("An event that cannot be encoded leaves the queue unchanged")
  func unencodable() {
    struct Broken: Error {}
    var pipe = pipe(events: 1)
    #expect(throws: Broken.self) { try pipe.enqueue { _ in throw Broken() } }
    #expect(pipe.pending == 1)
    #expect(pipe.welcomed(session: 1, received: 0, window: 8).batches == [1...1])
  }
}

extension OutPipeStateMachine {
  /// Queues events that require no record.
  mutating func enqueue(_ count: Int) {
    for _ in 0..<count { enqueue { $0.append(contentsOf: "\"event\"".utf8) } }
    record()
  }

  /// Processes the welcome of a receiver without a journal. A receiver that holds events knows the
  /// stream.
  mutating func welcomed(session: UInt64, received: UInt64, window: UInt32) -> [Action] {
    welcomed(
      session: session, stream: received > 0 ? stream : 0, received: received, window: window,
      isDurable: false)
  }
}

extension [OutPipeStateMachine.Action] {
  /// The numbers of the events in each batch.
  var batches: [ClosedRange<UInt64>] {
    compactMap { if case .sendBatch(let batch, _) = $0 { batch.first...batch.last } else { nil } }
  }

  var reports: [OutPipeStateMachine.Action] {
    filter { if case .report = $0 { true } else { false } }
  }
}
