import PipeMachines

/// A message from a coordinator to a participant.
package enum CoordinatorMessage: Hashable, Sendable {
  /// Asks the participant to prepare for the event, or to refuse the event.
  ///
  /// If `wantsChange` is set, a participant that refuses sends ``ParticipantMessage/changed`` at
  /// its next step.
  ///
  /// If an effect of the participant requested the event, `emitted` is the lower half of the
  /// request's number. The participant then checks that the effect has not withdrawn the request.
  case prepare(TransactionID, event: [UInt8], wantsChange: Bool, emitted: UInt32? = nil)
  case commit(TransactionID)
  case abort(TransactionID)
  /// Asks the participant to accept the event alone, without the other participants.
  case deliver(TransactionID, event: [UInt8])
}

/// The first message that a participant sends on each connection to its coordinator.
package struct ParticipantJoin: Hashable, Sendable {
  /// The highest transaction that the participant has received.
  package var watermark: TransactionID
  /// The transactions that the participant is prepared for, in ascending order: at most one for a
  /// node, or, in a keyed node, at most one for each instance.
  package var prepared: [TransactionID]
  /// The participant's record of the coordinator's journal. `nil` if this coordinator has never
  /// prepared the participant, or had no journal.
  package var history: History?

  /// The data by which a coordinator detects that its journal was replaced.
  package struct History: Hashable, Sendable {
    /// The id of the coordinator's journal when the participant was last prepared.
    package var journal: UInt64
    /// The last transaction of this journal whose commit the participant has recorded; 0.0 before
    /// the first commit.
    package var committed: TransactionID

    package init(journal: UInt64, committed: TransactionID) {
      self.journal = journal
      self.committed = committed
    }
  }

  package init(
    watermark: TransactionID, prepared: [TransactionID] = [], history: History? = nil
  ) {
    self.watermark = watermark
    self.prepared = prepared
    self.history = history
  }
}

/// A message from a participant to its coordinator.
package enum ParticipantMessage: Hashable, Sendable {
  /// The participant promises to take this step if the transaction commits. The promise survives a
  /// crash.
  case yes(TransactionID, ParticipantMove)
  case no(TransactionID, ParticipantRefusal)
  /// The participant has taken the step, and will not ask for the outcome again.
  case ack(TransactionID)
  /// Asks for the outcome of the transaction.
  case query(TransactionID)
  /// The participant's asynchronous transition is running, and the participant has promised nothing
  /// yet. Asks whether the coordinator still waits for an answer.
  case evaluating(TransactionID)
  /// The answer to `deliver`: the participant's version after the event, or the reason why the
  /// participant did not accept the event.
  case delivered(TransactionID, Result<UInt64, ParticipantRefusal>)
  /// The participant has taken a step since its last refusal.
  case changed
  /// In a keyed node, the instance with this key has taken a step since its last refusal.
  case instanceChanged(String)
}

/// A step of a participant: the version and the state after the step.
package struct ParticipantMove: Hashable, Sendable {
  package var version: UInt64
  package var state: [UInt8]
  /// Whether the participant enters no state: its transition is internal, or it ignores the event.
  /// Messages to the coordinator do not contain this value, which the coordinator does not need.
  package var isInternal: Bool

  package init(version: UInt64, state: [UInt8], isInternal: Bool = false) {
    self.version = version
    self.state = state
    self.isInternal = isInternal
  }

  // The top bit of a recorded version marks an internal move. Records of earlier programs have no
  // internal moves, and no version comes near this bit.
  private static let internalBit: UInt64 = 1 << 63

  /// The version in a record, where the highest bit marks an internal move.
  package var recordedVersion: UInt64 { isInternal ? version | Self.internalBit : version }

  /// Reads a move from a record.
  package init(recordedVersion: UInt64, state: [UInt8]) {
    self.init(
      version: recordedVersion & ~Self.internalBit, state: state,
      isInternal: recordedVersion & Self.internalBit != 0)
  }
}

/// The reason why a participant does not accept an event.
package enum ParticipantRefusal: Error, Hashable, Sendable {
  /// The participant's state does not allow the event.
  case refused(Refusal, version: UInt64, state: [UInt8])
  /// The participant accepts no event now: it is prepared for another event, a transition is
  /// running, or a pipe is full.
  case busy
  /// An effect of the participant requested the event, and has withdrawn the request.
  case withdrawn
}

// The wire format of the messages between coordinators and participants. The header contains the
// transaction: its epoch in `incarnationOrSession`, its sequence number in `sequence`.

extension CoordinatorMessage {
  /// The flag of `prepare` that asks a refusing participant to report its next step.
  private static let changeFlag: UInt8 = 1
  /// The flag of `prepare` for a request by an effect of the participant. The header's `count`
  /// identifies the request.
  private static let emittedFlag: UInt8 = 2
  /// The flag of `prepare` for a body that begins with the id of the coordinator's journal.
  private static let journalFlag: UInt8 = 4

  /// Returns the header and body of the message's frame.
  /// - Parameter journal: The id of the coordinator's journal; `nil` if there is no journal.
  package func frame(journal: UInt64?) -> (header: FrameHeader, body: [UInt8]) {
    var (header, body) = frame
    guard case .prepare = self, let journal else { return (header, body) }
    header.flags |= Self.journalFlag
    body = withUnsafeBytes(of: journal.littleEndian, Array.init) + body
    return (header, body)
  }

  /// Returns the id of the coordinator's journal in a `prepare`; `nil` if the frame contains no id.
  package static func journal(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) -> UInt64? {
    guard header.kind == .prepare, header.flags & journalFlag != 0, body.count >= 8 else {
      return nil
    }
    return UInt64(littleEndian: body.loadUnaligned(as: UInt64.self))
  }

  /// The header and body of the message's frame, without a journal's id.
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
  /// The highest epoch that is accepted regardless of the clock.
  private static let alwaysAcceptedEpoch: UInt64 = 1 << 32

  /// Throws if the transaction's epoch is in the future. If a participant accepted such a
  /// transaction, it would refuse all later transactions. A coordinator begins at most one epoch in
  /// a millisecond, so its epochs never exceed the time in milliseconds.
  /// - Parameter time: The current time. Unit: nanoseconds since 1970.
  package func checkEpoch(at time: Int64) throws(FrameError) {
    let epoch = transaction.epoch
    guard epoch <= max(Self.alwaysAcceptedEpoch, UInt64(max(0, time) / 1_000_000)) else {
      throw .epoch(epoch)
    }
  }
}

extension ParticipantJoin {
  /// The header and body of the message's frame. The body contains the prepared transactions and
  /// then the history, if they exist. A history without a prepared transaction is preceded by
  /// zeros.
  package var frame: (header: FrameHeader, body: [UInt8]) {
    var words = prepared.flatMap { [$0.epoch, $0.sequence] }
    if let history {
      if words.isEmpty { words = [0, 0] }
      words += [history.journal, history.committed.epoch, history.committed.sequence]
    }
    let body = words.flatMap { withUnsafeBytes(of: $0.littleEndian, Array.init) }
    return (FrameHeader(.join, watermark), body)
  }

  package init(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) throws(FrameError) {
    // A transaction has two words, and the history has three.
    guard body.count % 8 == 0, body.count != 8, body.count != 24 else { throw .body(.join) }
    var words = (0..<body.count / 8).map {
      UInt64(littleEndian: body.loadUnaligned(fromByteOffset: $0 * 8, as: UInt64.self))
    }
    var history: History?
    if !words.count.isMultiple(of: 2) {
      let last = words.suffix(3)
      history = History(
        journal: last[last.startIndex],
        committed: TransactionID(
          epoch: last[last.startIndex + 1], sequence: last[last.startIndex + 2]))
      words.removeLast(3)
    }
    let prepared = stride(from: 0, to: words.count, by: 2)
      .map { TransactionID(epoch: words[$0], sequence: words[$0 + 1]) }
      .filter { history == nil || $0 != .zero }
    self.init(watermark: header.transaction, prepared: prepared, history: history)
  }
}

extension ParticipantMessage {
  /// The flag of `query` when the participant has promised nothing.
  private static let evaluatingFlag: UInt8 = 1

  /// The code in the header's `count`.
  private enum Code: UInt32 {
    case accepted = 0, noTransition = 1, `guard` = 2, busy = 3, asynchronous = 4
    /// In the body, the text of the error precedes the state: a 32-bit byte count, then the bytes.
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

  /// The header and body of the message's frame. The body of `instanceChanged` is the key; any
  /// other non-empty body begins with the version.
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
    case .instanceChanged(let key): (FrameHeader(.changed), Array(key.utf8))
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
    case .changed:
      self = body.isEmpty ? .changed : .instanceChanged(String(decoding: body, as: UTF8.self))
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

  /// Encodes a text: a 32-bit byte count, then the text in UTF-8.
  private static func text(_ text: String) -> [UInt8] {
    withUnsafeBytes(of: UInt32(text.utf8.count).littleEndian, Array.init) + text.utf8
  }

  /// Splits a text encoded by ``text(_:)`` from the bytes that follow; `nil` if the bytes end too
  /// early.
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
      incarnationOrSession: transaction.epoch)
  }

  fileprivate var transaction: TransactionID {
    TransactionID(epoch: incarnationOrSession, sequence: sequence)
  }
}

/// A step that a participant has promised to take if the transaction commits.
package struct PreparedStep: Hashable, Sendable {
  package var transaction: TransactionID
  package var event: [UInt8]
  package var move: ParticipantMove
  /// The schema version of the machine that has evaluated the step.
  package var schema: Int

  package init(
    transaction: TransactionID, event: [UInt8], move: ParticipantMove, schema: Int = 1
  ) {
    self.schema = schema
    self.transaction = transaction
    self.event = event
    self.move = move
  }
}

/// A participant's record of the coordinator that last prepared the participant, and of that
/// coordinator's journal.
package struct RecordedCoordinator: Hashable, Sendable {
  /// The coordinator's name.
  package var name: String
  /// The id of the coordinator's journal.
  package var journal: UInt64
  /// The last transaction whose step the participant had taken when the participant recorded this
  /// journal. Another coordinator may have committed that transaction.
  package var lastTransaction: TransactionID

  package init(name: String, journal: UInt64, lastTransaction: TransactionID) {
    self.name = name
    self.journal = journal
    self.lastTransaction = lastTransaction
  }
}

/// A committed transaction.
package struct CommitRecord: Hashable, Sendable {
  package var transaction: TransactionID
  package var request: RequestID
  /// The steps of the participants, by the participant's name.
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

/// The contents of a coordinator's journal when the coordinator starts.
package struct CoordinatorJournal: Hashable, Sendable {
  /// The epoch of the coordinator's last start; 0 before the first start.
  package var epoch: UInt64 = 0
  /// The recorded commits in order, without forgotten commits.
  package var commits: [CommitRecord] = []
  /// The commits that all participants have acknowledged.
  package var acknowledged: Set<TransactionID> = []
  /// The highest forgotten transaction.
  package var forgottenThrough = TransactionID.zero
  /// The highest number among the forgotten requests of clients.
  package var highestForgottenRequestNumber: UInt64 = 0
  /// The journal's id; `nil` if the coordinator keeps no journal.
  package var id: UInt64?
  /// Whether the composite was reset before the journal was created. Participants may then name an
  /// earlier journal.
  package var followsReset = false
  /// Whether the last records may be missing after a loss of power.
  package var mayLackRecords = false

  package init() {}
}
