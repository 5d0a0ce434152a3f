import PipeNode
import PipeSupport
import PipeWire
import Testing

@Suite("The receiving end of a pipe")
struct InPipeStateMachineTests {
  private func welcome(_ received: UInt64, stream: UInt64 = 1) -> InPipeStateMachine.Action {
    .welcome(
      FrameHeader(.welcome, count: 8, sequence: received, incarnationOrSession: 2), stream: stream)
  }

  private func credit(_ applied: UInt64) -> FrameHeader {
    FrameHeader(.credit, count: 8, sequence: applied, incarnationOrSession: 2)
  }

  private func pipe(openedAt first: UInt64? = nil) -> InPipeStateMachine {
    var pipe = InPipeStateMachine(capacity: 8, session: 2)
    if let first {
      _ = pipe.connected()
      _ = pipe.opened(session: 2, stream: 1, first: first, lost: 0)
    }
    return pipe
  }

  @Test("A receiver welcomes each connection with the number of events that it has received")
  func welcomes() {
    var pipe = pipe(openedAt: 1)
    #expect(pipe.connected() == [welcome(0)])
    _ = pipe.opened(session: 2, stream: 1, first: 1, lost: 0)
    _ = pipe.arrived(session: 2, first: 1, count: 3)
    #expect(pipe.connected() == [welcome(3)])
  }

  @Test("A receiver accepts events in order, ignores repeated events, and requests missing events")
  func order() {
    var pipe = pipe(openedAt: 1)
    #expect(pipe.arrived(session: 2, first: 1, count: 3) == [.take(from: 0, first: 1)])
    #expect(pipe.arrived(session: 2, first: 2, count: 4) == [.take(from: 2, first: 4)])
    #expect(pipe.arrived(session: 2, first: 1, count: 2) == [.send(credit(0))])
    #expect(pipe.repeatedCount == 4)
    #expect(pipe.lastReceived == 5)
    #expect(pipe.arrived(session: 2, first: 9, count: 1) == [welcome(5)])
    #expect(pipe.arrived(session: 2, first: 6, count: 1) == [])
  }

  @Test("Events that arrive between a welcome and the sender's 'open' are ignored and sent again")
  func underWay() {
    var pipe = pipe(openedAt: 1)
    _ = pipe.arrived(session: 2, first: 1, count: 3)
    #expect(pipe.connected() == [welcome(3)])
    for first in UInt64(4)...9 {
      #expect(pipe.arrived(session: 2, first: first, count: 1) == [])
    }
    #expect(pipe.lastReceived == 3)
    _ = pipe.opened(session: 2, stream: 1, first: 4, lost: 0)
    #expect(pipe.arrived(session: 2, first: 4, count: 6) == [.take(from: 0, first: 4)])
  }

  @Test(
    "A receiver ignores impossible event numbers and sends another welcome",
    arguments: [(0, 0), (0, 1), (1, 0), (.max, 1), (.max, 2), (.max - 1, .max)]
      as [(UInt64, UInt32)])
  func impossible(first: UInt64, count: UInt32) {
    for opened in [1, first] where opened > 0 {
      var pipe = pipe(openedAt: opened)
      let received = pipe.lastReceived
      #expect(pipe.arrived(session: 2, first: first, count: count) == [welcome(received)])
      #expect(pipe.lastReceived == received)
    }
  }

  @Test("Batches before the sender's 'open', or for an earlier incarnation, are ignored")
  func stale() {
    var pipe = pipe()
    #expect(pipe.arrived(session: 2, first: 1, count: 1) == [welcome(0, stream: 0)])
    #expect(pipe.arrived(session: 1, first: 1, count: 1) == [])
    _ = pipe.opened(session: 2, stream: 1, first: 1, lost: 0)
    #expect(pipe.arrived(session: 1, first: 1, count: 1) == [])
    #expect(pipe.lastReceived == 0)
  }

  @Test("An 'open' that replies to an earlier incarnation's welcome is ignored")
  func staleOpen() {
    var pipe = pipe()
    #expect(pipe.opened(session: 1, stream: 1, first: 9, lost: 0) == [])
    #expect(pipe.connected() == [welcome(0, stream: 0)])
    #expect(
      pipe.opened(session: 2, stream: 1, first: 12, lost: 3)
        == [.report(.lostWithReceiver(count: 3, through: 11))])
  }

  @Test("A receiver reports events that were lost with an earlier incarnation of its node")
  func lost() {
    var pipe = pipe()
    _ = pipe.connected()
    #expect(
      pipe.opened(session: 2, stream: 1, first: 18, lost: 4)
        == [.report(.lostWithReceiver(count: 4, through: 17))])
    #expect(pipe.arrived(session: 2, first: 18, count: 1) == [.take(from: 0, first: 18)])
  }

  @Test("A receiver reports a crashed sender, and counts the next sender's events from 1")
  func senderDied() {
    var pipe = pipe(openedAt: 1)
    _ = pipe.arrived(session: 2, first: 1, count: 5)
    #expect(
      pipe.opened(session: 2, stream: 2, first: 1, lost: 0) == [
        .report(.senderRestarted(after: 5))
      ])
    #expect(pipe.arrived(session: 2, first: 1, count: 1) == [.take(from: 0, first: 1)])
  }

  @Test("Finished events of a sender's former stream are not acknowledged in the new stream")
  func earlierStream() {
    var pipe = pipe(openedAt: 1)
    _ = pipe.arrived(session: 2, first: 1, count: 5)
    // The sender crashes and restarts while the events wait.
    _ = pipe.connected()
    _ = pipe.opened(session: 2, stream: 7, first: 1, lost: 0)
    for number in UInt64(1)...5 { pipe.finish(number, of: 1) }
    pipe.record()
    #expect(pipe.lastApplied == 0)
    #expect(pipe.arrived(session: 2, first: 1, count: 1) == [.take(from: 0, first: 1)])
    #expect(pipe.acknowledgement() == nil)
    pipe.finish(1, of: 7)
    pipe.record()
    #expect(pipe.acknowledgement()?.sequence == 1)
  }

  @Test("If a sender has said goodbye, the receiver reports no gap when the next sender opens")
  func senderClosed() {
    var pipe = pipe(openedAt: 1)
    _ = pipe.arrived(session: 2, first: 1, count: 5)
    pipe.senderSaidGoodbye(session: 2)
    #expect(pipe.opened(session: 2, stream: 2, first: 1, lost: 0) == [])
  }

  @Test(
    "A receiver acknowledges a quarter of the window without request, and fewer events on request")
  func acknowledges() {
    var pipe = pipe(openedAt: 1)
    _ = pipe.arrived(session: 2, first: 1, count: 8)
    pipe.apply(1)
    #expect(pipe.acknowledgementDue() == nil)
    pipe.apply(2)
    #expect(pipe.acknowledgementDue() == credit(2))
    #expect(pipe.acknowledgementDue() == nil)
    pipe.apply(3)
    #expect(pipe.acknowledgement() == credit(3))
    #expect(pipe.acknowledgement() == nil)
    #expect(pipe.close() == FrameHeader(.closed, sequence: 3, incarnationOrSession: 2))
  }

  @Test("A receiver acknowledges no event after a postponed event")
  func postponed() {
    var pipe = pipe(openedAt: 1)
    _ = pipe.arrived(session: 2, first: 1, count: 6)
    for number in UInt64(2)...6 { pipe.apply(number) }
    #expect(pipe.lastApplied == 0)
    pipe.apply(1)
    #expect(pipe.lastApplied == 6)
  }

  @Test("A receiver requests the events that are missing before the sender's first event")
  func leftOut() {
    var pipe = pipe(openedAt: 1)
    #expect(pipe.opened(session: 2, stream: 1, first: 4, lost: 0) == [welcome(0)])
  }

  @Test(
    "Events are applied once and in order while connections break and the receiver restarts")
  func together() async {
    // A deterministic generator, so that each test run is the same.
    var generator = SplitMix64(seed: 42)
    for _ in 0..<100 {
      // Lets other tests use this thread.
      await Task.yield()
      var sender = OutPipeStateMachine(capacity: 16, stream: 1)
      var receiver = InPipeStateMachine(capacity: 16, session: 1)
      var session: UInt64 = 1
      var applied: [UInt64] = []
      var waiting: [UInt64] = []
      /// Delivers batches and other actions to the receiver.
      func deliver(_ actions: [OutPipeStateMachine.Action]) {
        for action in actions {
          switch action {
          case .open(let header, let stream):
            _ = receiver.opened(
              session: header.incarnationOrSession, stream: stream, first: header.sequence,
              lost: header.count)
          case .sendBatch(let batch, let session):
            // A message may be lost with its connection.
            if Int.random(in: 0..<6, using: &generator) == 0 { continue }
            for action in receiver.arrived(
              session: session, first: batch.firstSequence, count: UInt32(batch.count))
            {
              if case .take(_, let first) = action { waiting += first...batch.lastSequence }
            }
          default: break
          }
        }
      }
      func connect() {
        guard case .welcome(let header, let stream)? = receiver.connected().first else { return }
        deliver(
          sender.welcomed(
            session: header.incarnationOrSession, stream: stream, received: header.sequence,
            window: header.count, isDurable: false))
      }
      connect()
      for _ in 0..<200 {
        switch Int.random(in: 0..<10, using: &generator) {
        case 0..<5:
          if !sender.isFull { sender.enqueue(Int.random(in: 1...3, using: &generator)) }
          deliver(sender.flush())
        case 5..<8:
          for _ in 0..<Int.random(in: 0...4, using: &generator) where !waiting.isEmpty {
            applied.append(waiting[0])
            receiver.apply(waiting.removeFirst())
          }
          if let header = receiver.acknowledgement() {
            deliver(
              sender.credited(
                session: header.incarnationOrSession, applied: header.sequence, window: header.count
              ))
          }
        case 8: connect()
        default:
          // The receiver stops in order and returns as another incarnation.
          let goodbye = receiver.close()
          sender.receiverClosed(session: goodbye.incarnationOrSession, applied: goodbye.sequence)
          waiting = []
          session += 1
          receiver = InPipeStateMachine(capacity: 16, session: session)
          connect()
        }
      }
      // Finally, every message arrives.
      for _ in 0..<400 where sender.pendingCount > 0 {
        connect()
        while !waiting.isEmpty {
          applied.append(waiting[0])
          receiver.apply(waiting.removeFirst())
        }
        if let header = receiver.acknowledgement() {
          deliver(
            sender.credited(
              session: header.incarnationOrSession, applied: header.sequence, window: header.count))
        }
      }
      #expect(applied == Array(1...max(1, sender.lastQueued)).filter { $0 <= sender.lastQueued })
    }
  }
}

extension InPipeStateMachine {
  /// Finishes an event that requires no record.
  mutating func apply(_ sequence: UInt64) {
    finish(sequence, of: stream)
    record()
  }
}
