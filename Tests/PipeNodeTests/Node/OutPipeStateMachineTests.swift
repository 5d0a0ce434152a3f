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
    .open(
      FrameHeader(.open, count: lost, sequence: first, incarnationOrSession: session), stream: 7)
  }

  @Test("A sender sends nothing before a receiver welcomes it")
  func waits() {
    var pipe = pipe(events: 3)
    #expect(pipe.flush() == [])
    #expect(pipe.phase == .waiting)
    #expect(pipe.pendingCount == 3)
  }

  @Test("A sender opens with its first event's number, and sends all waiting events in one batch")
  func opens() {
    var pipe = pipe(events: 3)
    let actions = pipe.welcomed(session: 1, received: 0, window: 8)
    #expect(actions.first == open(1))
    #expect(actions.batches == [1...3])
    #expect(pipe.flush() == [])
  }

  @Test("A sender sends the events that its credit allows, and continues when it gets more credit")
  func credit() {
    var pipe = pipe(capacity: 8, events: 8)
    let first = pipe.welcomed(session: 1, received: 0, window: 4)
    #expect(first.batches == [1...4])
    #expect(pipe.flush().batches == [])
    #expect(pipe.credited(session: 1, applied: 2, window: 4).batches == [5...6])
    #expect(pipe.credited(session: 1, applied: 4, window: 4).batches == [7...8])
    #expect(pipe.lastAcknowledged == 4)
  }

  @Test("A pipe at its capacity is full until its receiver acknowledges an event")
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
    "A sender sends each event at once, even if its receiver has little capacity",
    arguments: [1, 2, 3])
  func small(capacity: Int) {
    var pipe = pipe(capacity: capacity)
    _ = pipe.welcomed(session: 1, received: 0, window: UInt32(capacity))
    for number in UInt64(1)...20 {
      pipe.enqueue(1)
      #expect(pipe.flush().batches == [number...number])
      _ = pipe.credited(session: 1, applied: number, window: UInt32(capacity))
      #expect(pipe.pendingCount == 0)
    }
  }

  @Test("After a broken connection, the same receiver gets the events that it has not received")
  func resend() {
    var pipe = pipe(capacity: 8, events: 8)
    _ = pipe.welcomed(session: 1, received: 0, window: 8)
    let again = pipe.welcomed(session: 1, received: 4, window: 8)
    #expect(again.first == open(5))
    #expect(again.batches == [5...8])
  }

  @Test(
    "When a pipe returns to its first receiver, events for other receivers do not count as lost")
  func turned() {
    func opening(acknowledged: UInt64) -> [Action] {
      var pipe = OutPipeStateMachine(
        capacity: 8, stream: 7, lastAcknowledged: acknowledged, redirectedAfter: 5,
        events: [Array("1".utf8)])
      return pipe.welcomed(session: 1, stream: 7, received: 2, window: 8, isDurable: true)
    }
    let elsewhere = FrameHeader(
      .open, flags: InPipeStateMachine.redirectedFlag, count: 3, sequence: 6,
      incarnationOrSession: 1)
    #expect(opening(acknowledged: 5).first == .open(elsewhere, stream: 7))
    // The former receiver had acknowledged the event.
    #expect(
      Array(opening(acknowledged: 6).prefix(2))
        == [.report(lost: 1, through: 6), open(7, lost: 4)])
    var receiver = InPipeStateMachine(
      capacity: 8, session: 1, stream: 7, lastApplied: 2, postponedCount: 0, senderClosed: false)
    let actions = receiver.opened(session: 1, stream: 7, first: 6, lost: 3, wasRedirected: true)
    #expect(actions.allSatisfy { if case .report = $0 { false } else { true } })
    #expect(receiver.arrived(session: 1, first: 6, count: 1) == [.take(from: 0, first: 6)])
  }

  @Test("A sender sends nothing while its connection is lost")
  func disconnected() {
    var pipe = pipe(capacity: 8, events: 2)
    _ = pipe.welcomed(session: 1, received: 0, window: 8)
    pipe.disconnected()
    pipe.enqueue(3)
    #expect(pipe.flush() == [])
    #expect(pipe.credited(session: 1, applied: 2, window: 8) == [])
    // First the same receiver, which holds the events, and then another receiver, which does not.
    #expect(pipe.welcomed(session: 1, received: 2, window: 8).batches == [3...5])
    pipe.disconnected()
    #expect(
      pipe.welcomed(session: 2, received: 0, window: 8).first == .report(lost: 5, through: 5))
  }

  @Test(
    "Events in flight to a crashed receiver are reported lost, and the next receiver gets the rest")
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

  @Test("The next receiver gets the events that a gracefully stopped receiver has not applied")
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

  @Test("A goodbye that arrives after the disconnection is still applied")
  func goodbyeAfterDisconnection() {
    var pipe = pipe(capacity: 8, events: 6)
    _ = pipe.welcomed(session: 1, received: 0, window: 8)
    pipe.disconnected()
    pipe.receiverClosed(session: 1, applied: 3)
    #expect(pipe.lastAcknowledged == 3)
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
    #expect(opened.close() == [.send(FrameHeader(.close, sequence: 2, incarnationOrSession: 3))])
    #expect(opened.welcomed(session: 4, received: 0, window: 8) == [])
  }

  @Test(
    "A sender ignores credit and goodbyes from another session or for events that were not sent")
  func stale() {
    var pipe = pipe(events: 4)
    _ = pipe.welcomed(session: 2, received: 0, window: 4)
    #expect(pipe.credited(session: 1, applied: 4, window: 9) == [])
    #expect(pipe.credited(session: 2, applied: 5, window: 9) == [])
    pipe.receiverClosed(session: 1, applied: 4)
    #expect(pipe.lastAcknowledged == 0)
    #expect(pipe.phase == .open(session: 2))
  }

  @Test("An event that cannot be encoded leaves the queue unchanged")
  func unencodable() {
    struct Broken: Error {}
    var pipe = pipe(events: 1)
    #expect(throws: Broken.self) { try pipe.enqueue { _ in throw Broken() } }
    #expect(pipe.pendingCount == 1)
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
    compactMap {
      if case .sendBatch(let batch, _) = $0 {
        batch.firstSequence...batch.lastSequence
      } else {
        nil
      }
    }
  }

  var reports: [OutPipeStateMachine.Action] {
    filter { if case .report = $0 { true } else { false } }
  }
}
