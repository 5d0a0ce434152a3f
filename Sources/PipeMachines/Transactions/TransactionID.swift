import PipeSupport

/// The number of one attempt at a synchronized event. Later attempts have higher numbers, and no
/// number is used twice.
public struct TransactionID: Hashable, Comparable, Sendable {
  /// The number of the coordinator's run. Each start of the coordinator increases this number.
  public var epoch: UInt64
  /// The position of the transaction among the transactions of its epoch.
  public var sequence: UInt64

  /// Makes a number.
  public init(epoch: UInt64, sequence: UInt64) {
    self.epoch = epoch
    self.sequence = sequence
  }

  /// A number that is lower than every number that a coordinator assigns.
  public static let zero = TransactionID(epoch: 0, sequence: 0)

  /// Orders numbers by epoch, then by sequence.
  public static func < (left: TransactionID, right: TransactionID) -> Bool {
    (left.epoch, left.sequence) < (right.epoch, right.sequence)
  }
}

extension TransactionID: CustomStringConvertible {
  /// The number as text: `3.17`.
  public var description: String { "\(epoch).\(sequence)" }

  /// Parses the format of ``description``; returns `nil` for any other text.
  public init?(_ text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false).map { UInt64($0) }
    guard parts.count == 2, let epoch = parts[0], let sequence = parts[1] else { return nil }
    self.init(epoch: epoch, sequence: sequence)
  }
}

extension TransactionID: Codable {
  /// Decodes the format of ``encode(to:)``.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    let text = try container.decode(String.self)
    guard let transaction = TransactionID(text) else {
      throw DecodingError.dataCorruptedError(
        in: container,
        debugDescription: "'\(text)' is not a transaction ID; write an ID such as 3.17")
    }
    self = transaction
  }

  /// Encodes the number as text: `"3.17"`.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(description)
  }
}

/// A synchronized event that is in doubt at a participant. The participant is prepared for the
/// event, and has asked for the outcome, but has not received it. Either all participants accept
/// the event, or none does.
///
/// The participant accepts no other event until the participant knows the outcome. At any time,
/// this event may change the published state of the participant's composites, or leave it
/// unchanged.
public struct InDoubtTransaction: Hashable, Codable, Sendable {
  /// The node that is prepared.
  public var participant: String
  /// The composite through which the event was sent.
  public var composite: String
  /// The name of the event's case.
  public var event: String
  /// The number of the synchronized event.
  public var transaction: TransactionID
  /// The time at which the participant became prepared, or at which its process started, whichever
  /// was later. Unit: nanoseconds since 1970.
  public var since: Int64
  /// For an instance: the number of other instances of its node that are in doubt, too. This
  /// instance has been in doubt longer than the others. `nil` if no other instance of the node is
  /// in doubt.
  public var otherInstances: Int?

  /// Makes a value from its parts.
  public init(
    participant: String, composite: String, event: String, transaction: TransactionID, since: Int64,
    otherInstances: Int? = nil
  ) {
    self.otherInstances = otherInstances
    self.participant = participant
    self.composite = composite
    self.event = event
    self.transaction = transaction
    self.since = since
  }
}

extension InDoubtTransaction: CustomStringConvertible {
  /// A description: `'left' in doubt in transaction 3.17 (pair: meet) since …`.
  public var description: String { wording { Timestamp(nanoseconds: $0).description } }

  /// Returns the description, with the time in a custom format.
  /// - Parameter time: Formats a time that is given in nanoseconds since 1970.
  package func wording(since time: (Int64) -> String) -> String {
    "'\(participant)' in doubt in transaction \(transaction) (\(composite): \(event)) since "
      + time(since) + otherInstancesText
  }

  /// The text about the other instances that are in doubt, such as `, and 2 more instances`; empty
  /// if no other instance is in doubt.
  package var otherInstancesText: String {
    guard let otherInstances, otherInstances > 0 else { return "" }
    return ", and \(otherInstances) more instance\(otherInstances == 1 ? "" : "s")"
  }
}
