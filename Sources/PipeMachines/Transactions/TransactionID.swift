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
