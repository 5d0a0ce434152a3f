import PipeNode
import PipeSupport
import PipeWire
import Testing

@Suite("A pipe between nodes that keep journals")
struct DurablePipeTests {
  @Test("A durable pipe sends no event before the event is recorded")
  func recordFirst() {
    var pipe = OutPipeStateMachine(capacity: 8, stream: 7, isDurable: true)
    _ = pipe.welcomed(session: 1, stream: 0, received: 0, window: 8, isDurable: true)
    pipe.enqueue { $0 += [0x31] }
    #expect(pipe.flush() == [])
    #expect(pipe.credited(session: 1, applied: 0, window: 8) == [])
    pipe.record()
    #expect(pipe.flush().batches == [1...1])
  }

  @Test("A receiver with a journal receives again all events that it has not recorded")
  func receiverDied() {
    var pipe = OutPipeStateMachine(capacity: 16, stream: 7, isDurable: true)
    _ = pipe.welcomed(session: 1, stream: 0, received: 0, window: 16, isDurable: true)
    pipe.enqueue(5)
    #expect(pipe.flush().batches == [1...5])
    let again = pipe.welcomed(session: 2, stream: 7, received: 2, window: 16, isDurable: true)
    #expect(
      again.first == .open(FrameHeader(.open, sequence: 3, incarnationOrSession: 2), stream: 7))
    #expect(again.batches == [1...5])
    // A receiver that has not recorded any event does not know the stream.
    let reopened = pipe.welcomed(session: 3, stream: 0, received: 0, window: 16, isDurable: true)
    #expect(
      reopened.first == .open(FrameHeader(.open, sequence: 1, incarnationOrSession: 3), stream: 7))
    #expect(reopened.reports == [])
  }

  @Test("A receiver restored to an older record reports events that its sender has deleted")
  func receiverWentBack() {
    var sender = OutPipeStateMachine(capacity: 8, stream: 7, isDurable: true)
    _ = sender.welcomed(session: 1, stream: 0, received: 0, window: 8, isDurable: true)
    sender.enqueue(6)
    _ = sender.flush()
    _ = sender.credited(session: 1, applied: 5, window: 8)
    let actions = sender.welcomed(session: 2, stream: 7, received: 3, window: 8, isDurable: true)
    #expect(actions.first == .report(lost: 2, through: 5))
    let open = FrameHeader(.open, count: 2, sequence: 6, incarnationOrSession: 2)
    #expect(actions.dropFirst().first == .open(open, stream: 7))
    var receiver = InPipeStateMachine(
      capacity: 8, session: 2, stream: 7, lastApplied: 3, postponedCount: 0, senderClosed: false)
    #expect(
      receiver.opened(session: 2, stream: 7, first: 6, lost: 2).first
        == .report(.forgotten(from: 4, through: 5)))
    #expect(receiver.arrived(session: 2, first: 6, count: 1) == [.take(from: 0, first: 6)])
  }

  @Test("A sender stops if its receiver has received more events than the sender has recorded")
  func senderWentBack() {
    var pipe = OutPipeStateMachine(
      capacity: 8, stream: 7, lastAcknowledged: 3, events: [[0x31], [0x32]])
    #expect(pipe.lastQueued == 5)
    #expect(
      pipe.welcomed(session: 1, stream: 7, received: 6, window: 8, isDurable: true)
        == [.reportStaleJournal(received: 6)])
  }

  @Test("Postponed events use the receiver's capacity, and are acknowledged when they are recorded")
  func held() {
    var pipe = InPipeStateMachine(capacity: 8, session: 2, isDurable: true)
    _ = pipe.connected()
    _ = pipe.opened(session: 2, stream: 7, first: 1, lost: 0)
    _ = pipe.arrived(session: 2, first: 1, count: 8)
    for number in UInt64(1)...4 { pipe.postpone(number, of: pipe.stream) }
    #expect(pipe.acknowledgement() == nil)
    pipe.record()
    #expect(pipe.lastApplied == 4)
    // Four events are postponed, so the capacity is not larger than before.
    #expect(
      pipe.acknowledgement() == FrameHeader(.credit, count: 4, sequence: 4, incarnationOrSession: 2)
    )
    pipe.finishPostponed(1, of: pipe.stream)
    #expect(
      pipe.acknowledgement() == FrameHeader(.credit, count: 5, sequence: 4, incarnationOrSession: 2)
    )
  }

  @Test("A receiver does not acknowledge applied events before it has recorded them")
  func unrecorded() {
    var pipe = InPipeStateMachine(capacity: 8, session: 2, isDurable: true)
    _ = pipe.connected()
    _ = pipe.opened(session: 2, stream: 7, first: 1, lost: 0)
    _ = pipe.arrived(session: 2, first: 1, count: 8)
    for number in UInt64(1)...6 { pipe.finish(number, of: pipe.stream) }
    #expect(pipe.acknowledgementDue() == nil)
    #expect(pipe.close() == FrameHeader(.closed, sequence: 0, incarnationOrSession: 2))
    pipe.record()
    #expect(
      pipe.acknowledgementDue()
        == FrameHeader(.credit, count: 8, sequence: 6, incarnationOrSession: 2))
  }

  @Test("A batch that exceeds the receiver's window is sent in parts")
  func split() {
    var pipe = OutPipeStateMachine(capacity: 8, stream: 7)
    pipe.enqueue(4)
    let actions = pipe.welcomed(session: 1, received: 0, window: 3)
    #expect(actions.batches == [1...3])
    #expect(pipe.credited(session: 1, applied: 3, window: 3).batches == [4...4])
  }

  @Test(
    "Every event is applied once and in order, no matter when either end of the pipe crashes",
    arguments: 0..<4)
  func together(seed: UInt64) async {
    var generator = SplitMix64(seed: seed &* 7919 &+ 1)
    for _ in 0..<50 {
      await Task.yield()
      var run = DurablePipeRun(capacity: Int.random(in: 1...12, using: &generator))
      for _ in 0..<300 { run.step(using: &generator) }
      run.finish()
      #expect(run.problem == nil)
      #expect(run.recorded == Array(0..<run.made))
    }
  }

  @Test(
    "A sender never has more unapplied events than the capacity, even if some are postponed",
    arguments: 0..<4)
  func capacity(seed: UInt64) async {
    var generator = SplitMix64(seed: seed &* 104_729 &+ 1)
    for _ in 0..<50 {
      await Task.yield()
      var run = DurablePipeRun(capacity: Int.random(in: 1...12, using: &generator))
      run.crashes = false
      for _ in 0..<300 { run.step(using: &generator) }
      #expect(run.problem == nil)
      #expect(run.highestUnappliedCount <= run.capacity)
    }
  }

  @Test("A sender is full while postponed events use the capacity, and then continues")
  func fullOfPostponed() {
    var pipe = OutPipeStateMachine(capacity: 2, stream: 7)
    pipe.enqueue(2)
    _ = pipe.welcomed(session: 1, received: 0, window: 2)
    _ = pipe.credited(session: 1, applied: 2, window: 0)
    #expect(pipe.pendingCount == 0)
    #expect(pipe.isFull)
    _ = pipe.welcomed(session: 2, received: 2, window: 0)
    #expect(pipe.isFull)
    _ = pipe.credited(session: 2, applied: 2, window: 1)
    #expect(!pipe.isFull)
  }
}

/// Both ends of a pipe, their journals, and the messages between them.
private struct DurablePipeRun {
  let capacity: Int
  var sender: OutPipeStateMachine
  var receiver: InPipeStateMachine
  /// The number of events made so far. Events after `madeRecorded` are not in the journal.
  var made = 0
  var madeRecorded = 0
  var senderJournal: (acknowledged: UInt64, events: [[UInt8]]) = (0, [])
  var receiverJournal: (stream: UInt64, applied: UInt64)?
  /// The events that the machine has applied. The journal has the first `recorded.count` of them.
  var applied: [Int] = []
  var recorded: [Int] = []
  var waiting: [(number: UInt64, event: Int)] = []
  /// The events that the receiver has postponed. The journal has `recordedPostponed`.
  var postponed: [(number: UInt64, event: Int)] = []
  var recordedPostponed: [(number: UInt64, event: Int)] = []
  /// Whether the processes are killed at random.
  var crashes = true
  /// The highest number of events that were made and not applied.
  var highestUnappliedCount = 0
  var session: UInt64 = 1
  var toReceiver: [OutPipeStateMachine.Action] = []
  var toSender: [InPipeStateMachine.Action] = []
  var problem: String?

  init(capacity: Int) {
    self.capacity = capacity
    sender = OutPipeStateMachine(capacity: capacity, stream: 7, isDurable: true)
    receiver = InPipeStateMachine(capacity: capacity, session: 1, isDurable: true)
    connect()
  }

  mutating func step(using generator: inout SplitMix64) {
    switch Int.random(in: 0..<27, using: &generator) {
    case 0..<4: make(Int.random(in: 1...3, using: &generator))
    case 4..<8: recordSender()
    case 8..<12: if !toReceiver.isEmpty { deliver(toReceiver.removeFirst()) }
    case 12..<15: if !toSender.isEmpty { deliver(toSender.removeFirst()) }
    case 15..<18: apply(Int.random(in: 1...4, using: &generator))
    case 18..<20: recordReceiver()
    case 20: connect()
    case 21: if crashes { killSender() }
    case 22: if crashes { killReceiver() }
    case 23: postpone(Int.random(in: 1...2, using: &generator))
    case 24..<26: applyPostponed()
    default:
      if let header = receiver.acknowledgement() { toSender.append(.send(header)) }
    }
  }

  /// Runs both ends without crashes until every message has arrived.
  mutating func finish() {
    make(1)
    for _ in 0..<200 {
      recordSender()
      connect()
      while !toReceiver.isEmpty || !toSender.isEmpty || !waiting.isEmpty || !postponed.isEmpty {
        while !toSender.isEmpty { deliver(toSender.removeFirst()) }
        while !toReceiver.isEmpty { deliver(toReceiver.removeFirst()) }
        applyPostponed()
        apply(.max)
        recordReceiver()
        if let header = receiver.acknowledgement() { toSender.append(.send(header)) }
      }
      if sender.pendingCount == 0 { return }
    }
  }

  private mutating func make(_ count: Int) {
    for _ in 0..<count where !sender.isFull {
      sender.enqueue { $0 += Array(String(made).utf8) }
      made += 1
      highestUnappliedCount = max(highestUnappliedCount, made - applied.count)
    }
  }

  private mutating func recordSender() {
    senderJournal.events += (madeRecorded..<made).map { Array(String($0).utf8) }
    let trimmed = Int(sender.lastAcknowledged - senderJournal.acknowledged)
    senderJournal.events.removeFirst(trimmed)
    senderJournal.acknowledged = sender.lastAcknowledged
    madeRecorded = made
    sender.record()
    toReceiver += sender.flush()
  }

  /// Applies waiting events, unless an earlier event is postponed.
  private mutating func apply(_ count: Int) {
    guard postponed.isEmpty else { return postpone(count) }
    for _ in 0..<min(count, waiting.count) {
      let next = waiting.removeFirst()
      applied.append(next.event)
      receiver.finish(next.number, of: receiver.stream)
    }
  }

  private mutating func postpone(_ count: Int) {
    for _ in 0..<min(count, waiting.count) {
      let next = waiting.removeFirst()
      postponed.append(next)
      receiver.postpone(next.number, of: receiver.stream)
    }
  }

  private mutating func applyPostponed() {
    for next in postponed {
      applied.append(next.event)
      receiver.finishPostponed(next.number, of: receiver.stream)
    }
    postponed = []
  }

  private mutating func recordReceiver() {
    recorded = applied
    recordedPostponed = postponed
    if receiver.stream != 0 { receiverJournal = (receiver.stream, receiver.lastFinished) }
    receiver.record()
  }

  /// Opens a new connection, without the messages in flight.
  private mutating func connect() {
    toReceiver = []
    toSender = receiver.connected()
  }

  private mutating func killSender() {
    made = madeRecorded
    sender = OutPipeStateMachine(
      capacity: capacity, stream: 7, lastAcknowledged: senderJournal.acknowledged,
      events: senderJournal.events)
    connect()
  }

  private mutating func killReceiver() {
    session += 1
    applied = recorded
    waiting = []
    postponed = recordedPostponed
    if let (stream, applied) = receiverJournal {
      receiver = InPipeStateMachine(
        capacity: capacity, session: session, stream: stream, lastApplied: applied,
        postponedCount: UInt64(postponed.count), senderClosed: false)
    } else {
      receiver = InPipeStateMachine(capacity: capacity, session: session, isDurable: true)
    }
    connect()
  }

  private mutating func deliver(_ action: OutPipeStateMachine.Action) {
    switch action {
    case .send: break
    case .open(let header, let stream):
      toSender += receiver.opened(
        session: header.incarnationOrSession, stream: stream, first: header.sequence,
        lost: header.count)
    case .sendBatch(let batch, let session):
      let actions = receiver.arrived(
        session: session, first: batch.firstSequence, count: UInt32(batch.count))
      for action in actions {
        guard case .take(let skipping, let first) = action else {
          toSender.append(action)
          continue
        }
        var number = first
        for event in batch.events.dropFirst(skipping) {
          waiting.append((number, event))
          number += 1
        }
      }
    case .report(let lost, _): problem = "\(lost) events reported lost"
    case .reportStaleJournal: problem = "the sender's journal is behind"
    }
  }

  private mutating func deliver(_ action: InPipeStateMachine.Action) {
    switch action {
    case .welcome(let header, let stream):
      toReceiver += sender.welcomed(
        session: header.incarnationOrSession, stream: stream, received: header.sequence,
        window: header.count,
        isDurable: header.flags & InPipeStateMachine.durableFlag != 0)
    case .send(let header):
      toReceiver += sender.credited(
        session: header.incarnationOrSession, applied: header.sequence, window: header.count)
    case .report(let gap): problem = "\(gap)"
    case .take: break
    }
  }
}

extension EventBatch {
  /// The events, which are numbers.
  fileprivate var events: [Int] {
    var events: [Int] = []
    try? bytes.withUnsafeBytes { body in
      try EventBatch.forEach(in: body, count: UInt32(count)) { bytes in
        events.append(Int(String(decoding: bytes, as: UTF8.self)) ?? -1)
      }
    }
    return events
  }
}
