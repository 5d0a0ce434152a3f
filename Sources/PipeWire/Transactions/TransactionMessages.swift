import PipeMachines

/// A message from a coordinator to a participant.
package enum CoordinatorMessage: Hashable, Sendable {
  /// Asks the participant whether it takes the event, and to prepare if so.
  ///
  /// A participant that refuses sends ``ParticipantMessage/changed`` at its next step, if `wantsChange`.
  ///
  /// If one of its own effects requested the event, `emitted` is the lower half of the request's
  /// number: the effect may have withdrawn the request.
  case prepare(TransactionID, event: [UInt8], wantsChange: Bool, emitted: UInt32? = nil)
  case commit(TransactionID)
  case abort(TransactionID)
  /// Asks the participant to take the event on its own.
  case deliver(TransactionID, event: [UInt8])
}

/// A participant's first message on each connection, which says that it takes part.
package struct ParticipantJoin: Hashable, Sendable {
  /// The highest transaction that the participant has seen.
  package var watermark: TransactionID
  /// The transaction that the participant is prepared for, if it does not know the outcome.
  package var prepared: TransactionID?
  /// The participant's record of the coordinator's journal; `nil` if the participant was not prepared
  /// under the coordinator's name, or the coordinator kept no journal then.
  package var history: History?

  /// The data by which a coordinator detects that its journal is not the one that it had.
  package struct History: Hashable, Sendable {
    /// The id of the coordinator's journal when the participant was last prepared.
    package var journal: UInt64
    /// The last transaction of that journal whose commit the participant has recorded; 0.0 before the first.
    package var committed: TransactionID

    package init(journal: UInt64, committed: TransactionID) {
      self.journal = journal
      self.committed = committed
    }
  }

  package init(
    watermark: TransactionID, prepared: TransactionID? = nil, history: History? = nil
  ) {
    self.watermark = watermark
    self.prepared = prepared
    self.history = history
  }
}

/// A message from a participant to its coordinator.
package enum ParticipantMessage: Hashable, Sendable {
  /// The participant is prepared for this move, whatever happens.
  case yes(TransactionID, ParticipantMove)
  case no(TransactionID, ParticipantRefusal)
  /// The participant has moved, and will not ask again.
  case ack(TransactionID)
  /// Asks for the outcome of the transaction.
  case query(TransactionID)
  /// The participant's transition is running, and it has promised nothing yet. Asks whether the
  /// coordinator still waits for it.
  case evaluating(TransactionID)
  /// The answer to `deliver`: the number of the participant's steps after the event, or the reason
  /// why it did not take the event.
  case delivered(TransactionID, Result<UInt64, ParticipantRefusal>)
  /// The participant has moved since it last refused.
  case changed
}

/// A step of a participant: the number of its steps and its state after it.
package struct ParticipantMove: Hashable, Sendable {
  package var version: UInt64
  package var state: [UInt8]

  package init(version: UInt64, state: [UInt8]) {
    self.version = version
    self.state = state
  }
}

/// The reason why a participant does not take an event.
package enum ParticipantRefusal: Error, Hashable, Sendable {
  /// The participant's state does not allow the event.
  case refused(Refusal, version: UInt64, state: [UInt8])
  /// The participant takes no event now: it is prepared for another event, or a transition or a
  /// pipe blocks it.
  case busy
  /// The participant's own effect requested the event, and has withdrawn the request.
  case withdrawn
}

// The wire format of these messages. The header contains the transaction: its epoch in `number`,
// its sequence number in `sequence`.

extension CoordinatorMessage {
  /// Set in `prepare` if a participant that refuses must report its next step.
  private static let changeFlag: UInt8 = 1
  /// Set in `prepare` if an effect of the participant made the request. The count identifies the request.
  private static let emittedFlag: UInt8 = 2
  /// Set in `prepare` if the body begins with the id of the coordinator's journal.
  private static let journalFlag: UInt8 = 4

  /// Returns the frame's header and body.
  /// - Parameter journal: The id of the coordinator's journal; `nil` if it keeps none.
  package func frame(journal: UInt64?) -> (header: FrameHeader, body: [UInt8]) {
    var (header, body) = frame
    guard case .prepare = self, let journal else { return (header, body) }
    header.flags |= Self.journalFlag
    body = withUnsafeBytes(of: journal.littleEndian, Array.init) + body
    return (header, body)
  }

  /// Returns the id of the coordinator's journal in a `prepare`; `nil` if there is none.
  package static func journal(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) -> UInt64? {
    guard header.kind == .prepare, header.flags & journalFlag != 0, body.count >= 8 else {
      return nil
    }
    return UInt64(littleEndian: body.loadUnaligned(as: UInt64.self))
  }

  /// The frame's header and body, without a journal's id.
  package var frame: (header: FrameHeader, body: [UInt8]) {
    switch self {
    case .prepare(let transaction, let event, let wantsChange, let emitted):
      (
        FrameHeader(
          .prepare, transaction,
          flags: (wantsChange ? Self.changeFlag : 0) | (emitted == nil ? 0 : Self.emittedFlag),
          count: emitted ?? 0), event
      )
    case .commit(let transaction): (FrameHeader(.commit, transaction), [])
    case .abort(let transaction): (FrameHeader(.abort, transaction), [])
    case .deliver(let transaction, let event): (FrameHeader(.deliver, transaction), event)
    }
  }

  package init(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) throws(FrameError) {
    let transaction = header.transaction
    switch header.kind {
    case .prepare:
      let hasJournalID = header.flags & Self.journalFlag != 0
      guard !hasJournalID || body.count >= 8 else { throw .body(.prepare) }
      self = .prepare(
        transaction, event: Array(body.dropFirst(hasJournalID ? 8 : 0)),
        wantsChange: header.flags & Self.changeFlag != 0,
        emitted: header.flags & Self.emittedFlag != 0 ? header.count : nil)
    case .commit: self = .commit(transaction)
    case .abort: self = .abort(transaction)
    case .deliver: self = .deliver(transaction, event: Array(body))
    default: throw .kind(header.kind.rawValue)
    }
  }
}

extension FrameHeader {
  /// Epochs up to this one are accepted regardless of the clock.
  private static let alwaysAcceptedEpoch: UInt64 = 1 << 32

  /// Rejects a transaction number that no coordinator can have assigned. A participant that had
  /// accepted it would refuse all later transactions. A coordinator begins at most one epoch in a
  /// millisecond.
  /// - Parameter time: The current time. Unit: nanoseconds since 1970.
  package func checkEpoch(at time: Int64) throws(FrameError) {
    let epoch = transaction.epoch
    guard epoch <= max(Self.alwaysAcceptedEpoch, UInt64(max(0, time) / 1_000_000)) else {
      throw .epoch(epoch)
    }
  }
}

extension ParticipantJoin {
  /// The frame's header and body. The body has the prepared transaction and the history, if there
  /// are any. If there is only a history, zeros come before it.
  package var frame: (header: FrameHeader, body: [UInt8]) {
    var words = prepared.map { [$0.epoch, $0.sequence] } ?? []
    if let history {
      if words.isEmpty { words = [0, 0] }
      words += [history.journal, history.committed.epoch, history.committed.sequence]
    }
    let body = words.flatMap { withUnsafeBytes(of: $0.littleEndian, Array.init) }
    return (FrameHeader(.join, watermark), body)
  }

  package init(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) throws(FrameError) {
    guard [0, 16, 40].contains(body.count) else { throw .body(.join) }
    let words = (0..<body.count / 8).map {
      UInt64(littleEndian: body.loadUnaligned(fromByteOffset: $0 * 8, as: UInt64.self))
    }
    var prepared = words.isEmpty ? nil : TransactionID(epoch: words[0], sequence: words[1])
    var history: History?
    if words.count > 2 {
      history = History(
        journal: words[2], committed: TransactionID(epoch: words[3], sequence: words[4]))
      if prepared == .zero { prepared = nil }
    }
    self.init(watermark: header.transaction, prepared: prepared, history: history)
  }
}

extension ParticipantMessage {
  /// Set in `query` if the participant has promised nothing.
  private static let evaluatingFlag: UInt8 = 1

  /// The code in the header's `count`.
  private enum Code: UInt32 {
    case accepted = 0, noTransition = 1, `guard` = 2, busy = 3, asynchronous = 4
    /// The body has the error's text before the state: the number of its bytes in 32 bits, and the bytes.
    case thrown = 5
    case timedOut = 6
    case withdrawn = 7
    case stateTooLarge = 8
    case ended = 9

    init(_ refusal: Refusal) {
      switch refusal {
      case .noTransition: self = .noTransition
      case .guard: self = .guard
      case .asynchronous: self = .asynchronous
      case .thrown: self = .thrown
      case .timedOut: self = .timedOut
      case .stateTooLarge: self = .stateTooLarge
      case .ended: self = .ended
      }
    }
  }

  /// The frame's header and body. A body begins with the version, if there is one.
  package var frame: (header: FrameHeader, body: [UInt8]) {
    switch self {
    case .yes(let transaction, let move):
      (FrameHeader(.yes, transaction), Self.body(move.version, move.state))
    case .no(let transaction, let refusal): Self.refusal(.no, transaction, refusal)
    case .ack(let transaction): (FrameHeader(.acknowledge, transaction), [])
    case .query(let transaction): (FrameHeader(.query, transaction), [])
    case .evaluating(let transaction):
      (FrameHeader(.query, transaction, flags: Self.evaluatingFlag), [])
    case .delivered(let transaction, .success(let version)):
      (FrameHeader(.delivered, transaction), Self.body(version, []))
    case .delivered(let transaction, .failure(let refusal)):
      Self.refusal(.delivered, transaction, refusal)
    case .changed: (FrameHeader(.changed), [])
    }
  }

  package init(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) throws(FrameError) {
    let transaction = header.transaction
    switch header.kind {
    case .yes:
      let (version, state) = try Self.parse(body, of: .yes)
      self = .yes(transaction, ParticipantMove(version: version, state: state))
    case .no:
      guard let refusal = try Self.refusal(header, body) else { throw .body(.no) }
      self = .no(transaction, refusal)
    case .acknowledge: self = .ack(transaction)
    case .query:
      let isEvaluating = header.flags & Self.evaluatingFlag != 0
      self = isEvaluating ? .evaluating(transaction) : .query(transaction)
    case .delivered:
      if let refusal = try Self.refusal(header, body) {
        self = .delivered(transaction, .failure(refusal))
      } else {
        self = .delivered(transaction, .success(try Self.parse(body, of: .delivered).0))
      }
    case .changed: self = .changed
    default: throw .kind(header.kind.rawValue)
    }
  }

  private static func refusal(
    _ kind: FrameKind, _ transaction: TransactionID, _ refusal: ParticipantRefusal
  ) -> (FrameHeader, [UInt8]) {
    switch refusal {
    case .busy: (FrameHeader(kind, transaction, count: Code.busy.rawValue), [])
    case .withdrawn: (FrameHeader(kind, transaction, count: Code.withdrawn.rawValue), [])
    case .refused(let reason, let version, let state):
      (
        FrameHeader(kind, transaction, count: Code(reason).rawValue),
        body(version, (reason.error.map(text) ?? []) + state)
      )
    }
  }

  private static func refusal(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer
  ) throws(FrameError) -> ParticipantRefusal? {
    guard let code = Code(rawValue: header.count) else { throw .body(header.kind) }
    let reason: Refusal
    switch code {
    case .accepted: return nil
    case .busy: return .busy
    case .withdrawn: return .withdrawn
    case .noTransition: reason = .noTransition
    case .guard: reason = .guard
    case .asynchronous: reason = .asynchronous
    case .timedOut: reason = .timedOut
    case .stateTooLarge: reason = .stateTooLarge
    case .ended: reason = .ended
    case .thrown:
      let (version, rest) = try parse(body, of: header.kind)
      guard let (error, state) = splitText(rest) else { throw .body(header.kind) }
      return .refused(.thrown(error), version: version, state: state)
    }
    let (version, state) = try parse(body, of: header.kind)
    return .refused(reason, version: version, state: state)
  }

  /// Returns a text with the number of its bytes before it.
  private static func text(_ text: String) -> [UInt8] {
    withUnsafeBytes(of: UInt32(text.utf8.count).littleEndian, Array.init) + text.utf8
  }

  /// Splits such a text from the rest; `nil` if the bytes end too early.
  private static func splitText(_ bytes: [UInt8]) -> (text: String, rest: [UInt8])? {
    guard bytes.count >= 4 else { return nil }
    let count = bytes.withUnsafeBytes { UInt32(littleEndian: $0.loadUnaligned(as: UInt32.self)) }
    guard bytes.count - 4 >= Int(count) else { return nil }
    let end = 4 + Int(count)
    return (String(decoding: bytes[4..<end], as: UTF8.self), Array(bytes[end...]))
  }

  private static func body(_ version: UInt64, _ state: [UInt8]) -> [UInt8] {
    withUnsafeBytes(of: version.littleEndian, Array.init) + state
  }

  private static func parse(
    _ body: UnsafeRawBufferPointer, of kind: FrameKind
  ) throws(FrameError) -> (UInt64, [UInt8]) {
    guard body.count >= 8 else { throw .body(kind) }
    return (
      UInt64(littleEndian: body.loadUnaligned(as: UInt64.self)),
      Array(UnsafeRawBufferPointer(rebasing: body[8...]))
    )
  }
}

extension FrameHeader {
  fileprivate init(
    _ kind: FrameKind, _ transaction: TransactionID, flags: UInt8 = 0, count: UInt32 = 0
  ) {
    self.init(
      kind, flags: flags, count: count, sequence: transaction.sequence,
      number: transaction.epoch)
  }

  fileprivate var transaction: TransactionID {
    TransactionID(epoch: number, sequence: sequence)
  }
}

/// A step that a participant is ready to take.
package struct PreparedStep: Hashable, Sendable {
  package var transaction: TransactionID
  package var event: [UInt8]
  package var move: ParticipantMove

  package init(transaction: TransactionID, event: [UInt8], move: ParticipantMove) {
    self.transaction = transaction
    self.event = event
    self.move = move
  }
}

/// The journal of the coordinator under which a participant was last prepared.
package struct RecordedCoordinator: Hashable, Sendable {
  /// The coordinator's name.
  package var name: String
  /// The id of the coordinator's journal.
  package var journal: UInt64
  /// The last transaction that the participant had taken before. Another coordinator may have
  /// committed it.
  package var since: TransactionID

  package init(name: String, journal: UInt64, since: TransactionID) {
    self.name = name
    self.journal = journal
    self.since = since
  }
}

/// A committed transaction.
package struct CommitRecord: Hashable, Sendable {
  package var transaction: TransactionID
  package var request: RequestID
  /// The moves that the participants are prepared for.
  package var moves: [String: ParticipantMove]

  package init(
    transaction: TransactionID, request: RequestID, moves: [String: ParticipantMove]
  ) {
    self.transaction = transaction
    self.request = request
    self.moves = moves
  }

  package var reply: TransactionReply {
    .atomic(.committed(transaction, versions: moves.mapValues(\.version)))
  }
}

/// The contents of a coordinator's journal at a start.
package struct CoordinatorJournal: Hashable, Sendable {
  /// The epoch of the last start; zero before the first.
  package var epoch: UInt64 = 0
  /// The commits, in the order of their records, without forgotten commits.
  package var commits: [CommitRecord] = []
  /// The commits that all participants have acknowledged.
  package var acknowledged: Set<TransactionID> = []
  /// The highest forgotten transaction.
  package var forgottenThrough = TransactionID.zero
  /// The highest forgotten request of a client.
  package var requestsForgotten: UInt64 = 0
  /// The journal's id; `nil` if the coordinator keeps none.
  package var id: UInt64?
  /// Whether the composite was reset before the journal was created. Participants may then name an
  /// earlier journal.
  package var followsReset = false
  /// Whether the last records may be missing after a loss of power.
  package var mayLackRecords = false

  package init() {}
}
