import PipeSupport

/// A synchronized event that a participant is prepared for, and whose end it has asked for and is not
/// told: it may be taken by all, or by none.
///
/// The participant takes no other event meanwhile. What its composites show may change by that event
/// at any time, or stay as it is.
public struct InDoubtTransaction: Hashable, Codable, Sendable {
  /// The node that is prepared.
  public var participant: String
  /// The composite through which the event is taken.
  public var composite: String
  /// The name of the event's case.
  public var event: String
  /// The number of the synchronized event.
  public var transaction: TransactionID
  /// Since when it is prepared, or when its process started, if that was later. Unit: nanoseconds since 1970.
  public var since: Int64

  /// Makes one.
  public init(
    participant: String, composite: String, event: String, transaction: TransactionID, since: Int64
  ) {
    self.participant = participant
    self.composite = composite
    self.event = event
    self.transaction = transaction
    self.since = since
  }
}

extension InDoubtTransaction: CustomStringConvertible {
  /// It in words: `'left' in doubt in transaction 3.17 (pair: meet) since …`.
  public var description: String { wording { Timestamp(nanoseconds: $0).description } }

  /// The same.
  /// - Parameter time: Words nanoseconds since 1970.
  package func wording(since time: (Int64) -> String) -> String {
    "'\(participant)' in doubt in transaction \(transaction) (\(composite): \(event)) since "
      + time(since)
  }
}
