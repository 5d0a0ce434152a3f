import PipeMachines

/// The name of an instance of a keyed node: `orders[4711]`.
public struct InstanceName: Hashable, Sendable, CustomStringConvertible {
  /// The name of the node.
  public var node: String
  /// The key of the instance.
  public var key: String

  /// Makes a name.
  public init(node: String, key: String) {
    self.node = node
    self.key = key
  }

  /// Reads `NODE[KEY]`; returns `nil` for any other text. The key may contain brackets.
  public init?(_ text: String) {
    guard text.hasSuffix("]"), let bracket = text.firstIndex(of: "["), bracket != text.startIndex
    else { return nil }
    node = String(text[..<bracket])
    key = String(text[text.index(after: bracket)...].dropLast())
    guard !key.isEmpty else { return nil }
  }

  /// The name as text: `NODE[KEY]`.
  public var description: String { "\(node)[\(key)]" }
}

extension InstanceName {
  /// Returns the node of a participant in a synchronized event: the node of `orders[4711]` is
  /// `orders`, and the name of a node is returned unchanged.
  package static func node(of participant: String) -> String {
    guard isInstance(participant), let name = InstanceName(participant) else { return participant }
    return name.node
  }

  /// Whether a participant in a synchronized event is an instance. Names of nodes have no brackets.
  package static func isInstance(_ participant: String) -> Bool {
    participant.utf8.last == UInt8(ascii: "]")
  }

  /// Returns the event with the instance's key in the field `field`. Returns the event unchanged if
  /// it already has this field.
  /// - Parameter event: A bare label, or `{"label": {"field": value}}`.
  package func event(_ event: JSONValue, keyedBy field: String) -> JSONValue {
    if let label = event.string { return .object([label: .object([field: .string(key)])]) }
    guard case .object(var cases) = event, cases.count == 1, let (label, payload) = cases.first,
      case .object(var members) = payload, members[field] == nil
    else { return event }
    members[field] = .string(key)
    cases[label] = .object(members)
    return .object(cases)
  }
}
