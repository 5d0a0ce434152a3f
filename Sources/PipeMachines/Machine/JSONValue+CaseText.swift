extension JSONValue {
  /// A state or event in readable form: `closing(persons: 3)`, `closed`.
  ///
  /// Fields are sorted by name, because the members of a JSON object have no order. A value without
  /// a label is written without a name. JSON that is not a case is written as JSON.
  public var caseText: String {
    guard let name = caseName, let members = caseMembers else { return text }
    return Self.wording(name, members)
  }

  /// Returns a state in readable form: a case, or a struct as `(count: 3, note: "")`.
  /// - Parameter fields: The names of a struct's fields in order; `nil` if the state is a case. The
  ///   JSON alone does not show whether the state is a case: a struct with one field can have the
  ///   same JSON.
  package func stateText(fields: [String]?) -> String {
    guard let fields, case .object(let members) = self else { return caseText }
    let known = fields.filter { members[$0] != nil }
    let others = members.keys.filter { !fields.contains($0) }.sorted()
    let list = (known + others).map { "\($0): \(members[$0]!.fieldText)" }
    return "(\(list.joined(separator: ", ")))"
  }

  private static func wording(_ name: String, _ members: [String: JSONValue]) -> String {
    guard !members.isEmpty else { return name }
    let list = members.sorted { precedes($0.key, $1.key) }.map { key, value in
      unlabeledIndex(of: key) == nil ? "\(key): \(value.fieldText)" : value.fieldText
    }
    return "\(name)(\(list.joined(separator: ", ")))"
  }

  /// The text of a value inside a case.
  private var fieldText: String {
    switch self {
    case .null: return "nil"
    case .bool, .integer, .number, .string: return text
    case .array(let values):
      return "[" + values.map(\.fieldText).joined(separator: ", ") + "]"
    case .object(let members):
      // An object whose only member is an object may be an enum value or a dictionary. Such an
      // object is written as an enum value.
      if let name = caseName, let fields = caseMembers { return Self.wording(name, fields) }
      let list = members.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value.fieldText)" }
      return list.isEmpty ? "[:]" : "[" + list.joined(separator: ", ") + "]"
    }
  }

  /// Returns the number in the key of a value without a label (`_0`, `_1`, …); `nil` for any other
  /// key.
  private static func unlabeledIndex(of key: String) -> Int? {
    key.first == "_" ? Int(key.dropFirst()) : nil
  }

  private static func precedes(_ left: String, _ right: String) -> Bool {
    switch (unlabeledIndex(of: left), unlabeledIndex(of: right)) {
    case (let left?, let right?): left < right
    case (nil, nil): left < right
    case (let left, _): left != nil
    }
  }
}

extension JSONValue {
  /// The name of the case that this JSON encodes: a bare label, or the only key of an object. `nil`
  /// if the JSON is not a case.
  package var caseName: String? {
    switch self {
    case .string(let label): label
    case .object(let members) where members.count == 1: members.keys.first
    default: nil
    }
  }

  /// The associated values of the case that this JSON encodes; empty for a bare label. `nil` if the
  /// JSON is not a case.
  package var caseMembers: [String: JSONValue]? {
    switch self {
    case .string: return [:]
    case .object(let members) where members.count == 1:
      if case .object(let fields) = members.values.first! { return fields }
      return nil
    default: return nil
    }
  }
}
