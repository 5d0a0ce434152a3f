import PipeMachines

/// The values that are tried of one field.
public enum ValueSet: Hashable, Sendable {
  case values([JSONValue])
  /// Whole numbers, written `0..4`.
  case range(ClosedRange<Int64>)

  /// The values that a set may have. Unit: values.
  public static let limit = 10_000

  /// Each value, in order.
  public var values: [JSONValue] {
    switch self {
    case .values(let values): values
    case .range(let range): range.map(JSONValue.integer)
    }
  }

  /// Reads `0..4`; `nil` where a text is none, or the range holds nothing or more than ``limit``.
  init?(range text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, parts[1].isEmpty, let first = Int64(parts[0]),
      let last = Int64(parts[2]), first <= last,
      last.subtractingReportingOverflow(first).partialValue < Int64(Self.limit),
      !last.subtractingReportingOverflow(first).overflow
    else { return nil }
    self = .range(first...last)
  }

  /// Whether a text has the form of a range, be it one or not.
  static func looksLikeRange(_ text: String) -> Bool {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 3 && parts[1].isEmpty
      && [parts[0], parts[2]].allSatisfy { part in
        let digits = part.first == "-" ? part.dropFirst() : part
        return !digits.isEmpty && digits.utf8.allSatisfy { (0x30...0x39).contains($0) }
      }
  }

  /// How it stands in a file.
  var json: JSONValue {
    switch self {
    case .values(let values): .array(values)
    case .range(let range): .string("\(range.lowerBound)..\(range.upperBound)")
    }
  }
}

/// An event as it may come: its name, and for some of its fields the values that they may have.
///
/// A field that is left out has the values that the section declares for the event, or else those of its
/// type. One value alone stands as it is; `a..b` stands for whole numbers.
public struct EventPattern: Hashable, Sendable {
  /// The event's name.
  public var event: String
  /// The fields that are named.
  public var fields: [String: ValueSet]

  /// Makes a pattern.
  public init(_ event: String, fields: [String: ValueSet] = [:]) {
    self.event = event
    self.fields = fields
  }
}

/// What an effect may give.
public struct EffectPattern: Hashable, Sendable {
  /// The events, of which it gives one; of a sequence any of them, again and again.
  public var events: [EventPattern]
  /// Whether it may also end without an event.
  public var mayEnd: Bool

  /// Makes a pattern.
  public init(_ events: [EventPattern], mayEnd: Bool = false) {
    self.events = events
    self.mayEnd = mayEnd
  }
}
