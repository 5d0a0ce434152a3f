import PipeSupport

extension [CaseDescription] {
  /// Why some JSON is not a case of this enum, in a sentence; `nil` where it may be one.
  ///
  /// A value whose type only its own decoder can judge is not judged.
  /// - Parameters:
  ///   - noun: What the cases are: `state`, `event`.
  ///   - owner: Who has them: `machine 'ElevatorDoor'`.
  package func problem(with json: JSONValue, noun: String, owner: String) -> String? {
    guard let name = json.caseName, let members = json.caseMembers else {
      return "\(json.text) is no \(noun): write a label, or {\"label\":{\"field\":value}}"
    }
    guard let found = first(where: { $0.name == name }) else {
      return "\(owner) has no \(noun) '\(name)'" + Suggestion.among(map(\.name), like: name)
    }
    let example = "write '\(found.exampleText)'"
    let names = found.fields.map(\.name)
    if let field = members.keys.sorted().first(where: { !names.contains($0) }) {
      return "\(noun) \(found.wording) has no field '\(field)'"
        + Suggestion.among(names, like: field)
    }
    for field in found.fields {
      let type = SwiftType(field.type)
      guard let value = members[field.name] else {
        if case .optional = type { continue }
        return "field '\(field.name)' of \(noun) \(found.wording) is missing; \(example)"
      }
      guard type.takes(value) else {
        return "field '\(field.name)' of \(noun) \(found.wording) cannot be \(value.text); "
          + "write \(type.demand(of: field.type))"
      }
    }
    return nil
  }
}

extension [CaseDescription.Field] {
  /// Why some JSON does not give values of some of these fields, in a sentence; `nil` where it may.
  /// - Parameter owner: Whose fields they are: `the state of node 'counter'`.
  package func problem(withSome json: JSONValue, owner: String) -> String? {
    guard case .object(let members) = json else {
      let example = CaseDescription(name: "", fields: Array(prefix(1))).exampleMembers.text
      return "\(owner) is a struct: write some of its fields, as in '\(example)'"
    }
    for (name, value) in members.sorted(by: { $0.key < $1.key }) {
      guard let field = first(where: { $0.name == name }) else {
        return "\(owner) has no field '\(name)'" + Suggestion.among(map(\.name), like: name)
      }
      let type = SwiftType(field.type)
      guard type.takes(value) else {
        return "field '\(name)' of \(owner) cannot be \(value.text); "
          + "write \(type.demand(of: field.type))"
      }
    }
    return nil
  }
}

extension CaseDescription {
  /// The case with values of its types, as a person would type it.
  package var exampleText: String {
    guard !fields.isEmpty else { return name }
    return JSONValue.object([name: exampleMembers]).text
  }

  fileprivate var exampleMembers: JSONValue {
    let members = fields.map { ($0.name, SwiftType($0.type).example) }
    return .object(Dictionary(members) { first, _ in first })
  }
}

extension SwiftType {
  fileprivate var example: JSONValue {
    switch self {
    case .bool: true
    case .string: "text"
    case .integer: 1
    case .floating: .number(0.5)
    case .array: []
    case .dictionary: [:]
    case .optional(let inner): inner.example
    case .unknown: "…"
    }
  }
}

extension CaseDescription {
  /// The case as its declaration has it: `'persons(count: Int)'`.
  package var wording: String {
    let list = fields.map { "\($0.name): \($0.type)" }.joined(separator: ", ")
    return fields.isEmpty ? "'\(name)'" : "'\(name)(\(list))'"
  }
}
