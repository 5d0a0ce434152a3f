import PipeSupport

/// What keeps some JSON from being a case of an enum.
package enum CaseProblem {
  /// It is neither a label nor `{"label": {…}}`.
  case noCase(JSONValue)
  case unknownCase(String, known: [String])
  case unknownField(String, of: CaseDescription)
  case missingField(CaseDescription.Field, of: CaseDescription)
  case wrongType(CaseDescription.Field, JSONValue, of: CaseDescription)

  /// It in a sentence.
  /// - Parameters:
  ///   - noun: What the cases are: `state`, `event`.
  ///   - owner: Who has them: `machine 'ElevatorDoor'`.
  package func text(noun: String, owner: String) -> String {
    switch self {
    case .noCase(let json):
      "\(json.text) is no \(noun): write a label, or {\"label\":{\"field\":value}}"
    case .unknownCase(let name, let known):
      "\(owner) has no \(noun) '\(name)'" + Suggestion.among(known, like: name)
    case .unknownField(let name, let found):
      "\(noun) \(found.wording) has no field '\(name)'"
        + Suggestion.among(found.fields.map(\.name), like: name)
    case .missingField(let field, let found):
      "field '\(field.name)' of \(noun) \(found.wording) is missing; write '\(found.exampleText)'"
    case .wrongType(let field, let value, let found):
      "field '\(field.name)' of \(noun) \(found.wording) cannot be \(value.text); "
        + "write \(SwiftType(field.type).demand(of: field.type))"
    }
  }
}

extension [CaseDescription] {
  /// Why some JSON is not a case of this enum; nothing where it may be one.
  ///
  /// A value whose type only its own decoder can judge is not judged.
  package func problems(with json: JSONValue) -> [CaseProblem] {
    guard let name = json.caseName, let members = json.caseMembers else { return [.noCase(json)] }
    guard let found = first(where: { $0.name == name }) else {
      return [.unknownCase(name, known: map(\.name))]
    }
    let names = found.fields.map(\.name)
    let unknown = members.keys.sorted().filter { !names.contains($0) }
    return unknown.map { .unknownField($0, of: found) }
      + found.fields.compactMap { field in
        let type = SwiftType(field.type)
        guard let value = members[field.name] else {
          if case .optional = type { return nil }
          return .missingField(field, of: found)
        }
        return type.takes(value) ? nil : .wrongType(field, value, of: found)
      }
  }

  /// The first reason why some JSON is not a case of this enum, in a sentence; `nil` where it may be one.
  package func problem(with json: JSONValue, noun: String, owner: String) -> String? {
    problems(with: json).first?.text(noun: noun, owner: owner)
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
