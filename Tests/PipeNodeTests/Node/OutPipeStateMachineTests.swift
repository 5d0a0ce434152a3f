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

  @Test("sends nothing before a receiver welcomes it")
  func waits() {
    var pipe = pipe(events: 3)
    #expect(pipe.flush() == [])
    #expect(pipe.phase == .waiting)
    #expect(pipe.pending == 3)
  }

  @Test("opens with its first event and sends what waits in one batch")
  func opens() {
    var pipe = pipe(events: 3)
    let actions = pipe.welcomed(session: 1, received: 0, window: 8)
    #expect(actions.first == open(1))
    #expect(actions.batches == [1...3])
    #expect(pipe.flush() == [])
  }

  @Test("sends no further than the credit reaches, and goes on with more credit")
  func credit() {
    var pipe = pipe(capacity: 8, events: 8)
    let first = pipe.welcomed(session: 1, received: 0, window: 4)
    #expect(first.batches == [1...4])
    #expect(pipe.flush().batches == [])
    #expect(pipe.credited(session: 1, applied: 2, window: 4).batches == [5...6])
    #expect(pipe.credited(session: 1, applied: 4, window: 4).batches == [7...8])
    #expect(pipe.acknowledged == 4)
  }

  @Test("is full at its capacity, and no more once the receiver has caught up")
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

  @Test("a capacity of one passes events one by one", arguments: [1, 2, 3])
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

  @Test("after a broken connection the same receiver gets again what it does not hold")
  func resend() {
    var pipe = pipe(capacity: 8, events: 8)
    _ = pipe.welcomed(session: 1, received: 0, window: 8)
    let again = pipe.welcomed(session: 1, received: 4, window: 8)
    #expect(again.first == open(5))
    #expect(again.batches == [5...8])
  }

  @Test("what another receiver had meanwhile is not lost to one that it comes back to")
  func turned() {
    func opening(acknowledged: UInt64) -> [Action] {
      var pipe = OutPipeStateMachine(
        capacity: 8, stream: 7, acknowledged: acknowledged, turnedAfter: 5,
        events: [Array("1".utf8)])
      return pipe.welcomed(session: 1, stream: 7, received: 2, window: 8, isDurable: true)
    }
    let elsewhere = FrameHeader(
      .open, flags: InPipeStateMachine.elsewhereFlag, count: 3, sequence: 6, number: 1)
    #expect(opening(acknowledged: 5).first == .open(elsewhere, stream: 7))
    // This one had acknowledged it.
    #expect(
      Array(opening(acknowledged: 6).prefix(2))
        == [.report(lost: 1, through: 6), open(7, lost: 4)])
    var receiver = InPipeStateMachine(
      capacity: 8, session: 1, stream: 7, applied: 2, postponed: 0, senderClosed: false)
    let actions = receiver.opened(session: 1, stream: 7, first: 6, lost: 3, wentElsewhere: true)
    #expect(actions.allSatisfy { if case .report = $0 { false } else { true } })
    #expect(receiver.arrived(session: 1, first: 6, count: 1) == [.take(from: 0, first: 6)])
  }

  @Test("sends nothing into a connection that is gone")
  func disconnected() {
    var pipe = pipe(capacity: 8, events: 2)
    _ = pipe.welcomed(session: 1, received: 0, window: 8)
    pipe.disconnected()
    pipe.enqueue(3)
    #expect(pipe.flush() == [])
    #expect(pipe.credited(session: 1, applied: 2, window: 8) == [])
    // The same receiver, which had taken what was sent; then another, which has not.
    #expect(pipe.welcomed(session: 1, received: 2, window: 8).batches == [3...5])
    pipe.disconnected()
    #expect(
      pipe.welcomed(session: 2, received: 0, window: 8).first == .report(lost: 5, through: 5))
  }

  @Test("what was under way to a receiver that died is reported lost, the rest goes to the next")
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

  @Test("a receiver that stops in order loses nothing: the next one gets all it had not applied")
  func receiverClosed() {
    var pipe = pipe(capacity: 8, events: 6)
    _ = pipe.welcomed(session: 1, received: 0, window: 8)
    pipe.receiverClosed(session: 1, applied: 3)
    #expect(pipe.phase == .waiting)
    let actions = pipe.welcomed(session: 2, received: 0, window: 8)
    // The batch holds events that were applied; the receiver passes over what lies before `open`.
    #expect(actions.first == open(4, session: 2))
    #expect(actions.batches.last?.upperBound == 6)
    #expect(actions.reports == [])
  }

  @Test("a goodbye that is read after the connection was seen to go counts all the same")
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

  @Test("says goodbye with the last event that it sent")
  func close() {
    var pipe = pipe(events: 2)
    #expect(pipe.close() == [])
    var opened = self.pipe(events: 2)
    _ = opened.welcomed(session: 3, received: 0, window: 8)
    #expect(opened.close() == [.send(FrameHeader(.close, sequence: 2, number: 3))])
    #expect(opened.welcomed(session: 4, received: 0, window: 8) == [])
  }

  @Test("credit and goodbyes of another session, or beyond what was sent, change nothing")
  func stale() {
    var pipe = pipe(events: 4)
    _ = pipe.welcomed(session: 2, received: 0, window: 4)
    #expect(pipe.credited(session: 1, applied: 4, window: 9) == [])
    #expect(pipe.credited(session: 2, applied: 5, window: 9) == [])
    pipe.receiverClosed(session: 1, applied: 4)
    #expect(pipe.acknowledged == 0)
    #expect(pipe.phase == .open(session: 2))
  }

  @Test("an event that cannot be encoded leaves the queue as it was")
  func unencodable() {
    struct Broken: Error {}
    var pipe = pipe(events: 1)
    #expect(throws: Broken.self) { try pipe.enqueue { _ in throw Broken() } }
    #expect(pipe.pending == 1)
    #expect(pipe.welcomed(session: 1, received: 0, window: 8).batches == [1...1])
  }
}

extension OutPipeStateMachine {
  /// Queues events that need no record.
  mutating func enqueue(_ count: Int) {
    for _ in 0..<count { enqueue { $0.append(contentsOf: "\"event\"".utf8) } }
    record()
  }

  /// Is welcomed by a receiver that keeps no record; one that has received something knows the stream.
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
