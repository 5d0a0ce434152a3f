import PipeSupport

/// The number of one synchronized event that was tried: never given twice, and ordered.
public struct TransactionID: Hashable, Comparable, Sendable {
  /// Which start of the coordinator gave it; raised at each start.
  public var epoch: UInt64
  /// Its place among the transactions of that start.
  public var sequence: UInt64

  /// Makes a number.
  public init(epoch: UInt64, sequence: UInt64) {
    self.epoch = epoch
    self.sequence = sequence
  }

  /// Before every number that a coordinator gives.
  public static let zero = TransactionID(epoch: 0, sequence: 0)

  /// Orders by epoch, then by place in it.
  public static func < (left: TransactionID, right: TransactionID) -> Bool {
    (left.epoch, left.sequence) < (right.epoch, right.sequence)
  }
}

extension TransactionID: CustomStringConvertible {
  /// The number as people write it: `3.17`.
  public var description: String { "\(epoch).\(sequence)" }

  /// Reads what ``description`` writes; `nil` for any other text.
  public init?(_ text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false).map { UInt64($0) }
    guard parts.count == 2, let epoch = parts[0], let sequence = parts[1] else { return nil }
    self.init(epoch: epoch, sequence: sequence)
  }
}

extension TransactionID: Codable {
  /// Reads what ``encode(to:)`` writes.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    let text = try container.decode(String.self)
    guard let transaction = TransactionID(text) else {
      throw DecodingError.dataCorruptedError(
        in: container, debugDescription: "'\(text)' is no transaction; one is like 3.17")
    }
    self = transaction
  }

  /// Writes the number as people do: `"3.17"`.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(description)
  }
}

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
