import PipeMachines
import PipeWire
import Testing

@Suite("The frames of synchronized events")
struct TransactionFramesTests {
  private static let transaction = TransactionID(epoch: 3, sequence: 17)

  @Test(
    "A coordinator's messages are unchanged by encoding and decoding as frames",
    arguments: [
      .prepare(transaction, event: Array("\"go\"".utf8), wantsChange: true),
      .prepare(transaction, event: Array("\"go\"".utf8), wantsChange: false),
      .prepare(transaction, event: [], wantsChange: true, emitted: 0),
      .prepare(transaction, event: [], wantsChange: false, emitted: .max),
      .commit(transaction), .abort(transaction),
      .deliver(transaction, event: Array(#"{"start":{"floor":3}}"#.utf8)),
    ] as [CoordinatorMessage])
  func coordinator(message: CoordinatorMessage) throws {
    let (header, body) = message.frame
    #expect(try body.withUnsafeBytes { try CoordinatorMessage(header, $0) } == message)
    #expect(header.incarnationOrSession == 3)
    #expect(header.sequence == 17)
  }

  private static let refusals: [ParticipantRefusal] = [
    .busy, .withdrawn, .refused(.guard, version: 7, state: Array("\"shut\"".utf8)),
    .refused(.noTransition, version: .max, state: []),
    .refused(.asynchronous, version: 1, state: Array("\"shut\"".utf8)),
    .refused(.timedOut, version: 4, state: Array("\"shut\"".utf8)),
    .refused(.stateTooLarge, version: 4, state: Array("\"shut\"".utf8)),
    .refused(.thrown("it will not — é"), version: 2, state: Array("{}".utf8)),
    .refused(.thrown(""), version: 2, state: []),
  ]

  @Test(
    "A participant's messages are unchanged by encoding and decoding as frames",
    arguments: [
      .yes(transaction, ParticipantMove(version: 9, state: Array("\"open\"".utf8))),
      .ack(transaction), .query(transaction), .evaluating(transaction), .changed,
      .instanceChanged("4711"),
      .delivered(transaction, .success(4)),
    ] + refusals.map { .no(transaction, $0) }
      + refusals.map { .delivered(transaction, .failure($0)) } as [ParticipantMessage])
  func participant(message: ParticipantMessage) throws {
    let (header, body) = message.frame
    #expect(try body.withUnsafeBytes { try ParticipantMessage(header, $0) } == message)
  }

  @Test(
    "A participant's join message is unchanged by encoding and decoding as a frame",
    arguments: [
      [], [TransactionID(epoch: 2, sequence: .max)],
      [TransactionID(epoch: 2, sequence: 1), TransactionID(epoch: 3, sequence: 1)],
    ])
  func join(prepared: [TransactionID]) throws {
    let join = ParticipantJoin(watermark: Self.transaction, prepared: prepared)
    let (header, body) = join.frame
    #expect(body.count == 16 * prepared.count)
    #expect(try body.withUnsafeBytes { try ParticipantJoin(header, $0) } == join)
  }

  @Test(
    "A participant's history is unchanged by encoding and decoding in its join message",
    arguments: [
      [], [TransactionID(epoch: 2, sequence: .max)],
      [TransactionID(epoch: 2, sequence: 1), TransactionID(epoch: 3, sequence: 1)],
    ])
  func history(prepared: [TransactionID]) throws {
    let join = ParticipantJoin(
      watermark: Self.transaction, prepared: prepared,
      history: .init(journal: .max, committed: TransactionID(epoch: 1, sequence: 7)))
    let (header, body) = join.frame
    #expect(body.count == 16 * max(1, prepared.count) + 24)
    #expect(try body.withUnsafeBytes { try ParticipantJoin(header, $0) } == join)
  }

  @Test("Only a PREPARE message names the coordinator's journal")
  func journal() throws {
    let prepare = CoordinatorMessage.prepare(Self.transaction, event: [1, 2], wantsChange: true)
    for (message, journal) in [(prepare, 9), (prepare, nil), (.commit(Self.transaction), nil)]
      as [(CoordinatorMessage, UInt64?)]
    {
      let (header, body) = message.frame(journal: journal)
      #expect(body.withUnsafeBytes { CoordinatorMessage.journal(header, $0) } == journal)
      #expect(try body.withUnsafeBytes { try CoordinatorMessage(header, $0) } == message)
    }
    #expect(CoordinatorMessage.commit(Self.transaction).frame(journal: 9).body.isEmpty)
    let (header, body) = prepare.frame(journal: 9)
    #expect(throws: FrameError.body(.prepare)) {
      try body.prefix(7).withUnsafeBytes { try CoordinatorMessage(header, $0) }
    }
  }

  @Test("A malformed transaction frame is refused with its kind")
  func malformed() {
    let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
    for count in [7, 8, 12, 24] {
      #expect(throws: FrameError.body(.join)) {
        try [UInt8](repeating: 0, count: count).withUnsafeBytes {
          try ParticipantJoin(FrameHeader(.join), $0)
        }
      }
    }
    #expect(throws: FrameError.body(.yes)) {
      try ParticipantMessage(FrameHeader(.yes), nothing)
    }
    #expect(throws: FrameError.body(.no)) {
      try ParticipantMessage(FrameHeader(.no, count: 9), nothing)
    }
    #expect(throws: FrameError.body(.no)) {
      try ParticipantMessage(FrameHeader(.no, count: 0), nothing)
    }
    // A text whose length exceeds the body.
    for body in [[UInt8](repeating: 0, count: 8), [0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 65]] {
      #expect(throws: FrameError.body(.no)) {
        try body.withUnsafeBytes { try ParticipantMessage(FrameHeader(.no, count: 5), $0) }
      }
    }
    #expect(throws: FrameError.kind(81)) {
      try ParticipantMessage(FrameHeader(.commit), nothing)
    }
    #expect(throws: FrameError.kind(84)) {
      try CoordinatorMessage(FrameHeader(.yes), nothing)
    }
  }
}
