import PipeMachines
import PipeSupport
import PipeWire

extension TopologyChecker {
  /// What a payload is checked as.
  enum PayloadKind {
    case state
    /// An event, whose template takes values from a state, where that is known.
    case event(from: CaseDescription?)
  }

  /// Checks a case's JSON against the cases of an enum.
  /// - Returns: Whether the enum has such a case.
  @discardableResult
  mutating func checkCase(
    _ json: JSONValue, against cases: [CaseDescription], kind: PayloadKind, holder: String,
    owner: String, at path: [String]
  ) -> Bool {
    let (noun, code): (String, Diagnostic.Code) =
      switch kind {
      case .state: ("state", .unknownState)
      case .event: ("event", .unknownEvent)
      }
    guard let name = json.caseName, let members = json.caseMembers else { return false }
    let isBare = json.string != nil
    let labelPath = isBare ? path : path + [name]
    let label = isBare ? source.mark(of: path) : source.mark(ofKey: labelPath)
    guard let found = cases.first(where: { $0.name == name }) else {
      report(
        code, at: label,
        "\(owner): \(holder) has no \(noun) '\(name)'"
          + Suggestion.among(cases.map(\.name), like: name))
      return false
    }
    let names = found.fields.map(\.name)
    for field in members.keys.sorted() where !names.contains(field) {
      report(
        .unknownField, at: source.mark(ofKey: labelPath + [field]),
        "\(owner): \(noun) \(found.wording) has no field '\(field)'"
          + Suggestion.among(names, like: field))
    }
    for field in found.fields {
      let place = "\(owner): field '\(field.name)' of \(noun) \(found.wording)"
      if let value = members[field.name] {
        check(value, fits: field, kind: kind, place: place, at: labelPath + [field.name])
      } else if !isOptional(field.type) {
        report(.missingField, at: label, "\(place) is missing; add '\(field.name)'")
      }
    }
    return true
  }

  private func isOptional(_ type: String) -> Bool {
    if case .optional = SwiftType(type) { true } else { false }
  }

  private mutating func check(
    _ value: JSONValue, fits field: CaseDescription.Field, kind: PayloadKind, place: String,
    at path: [String]
  ) {
    guard case .event(let state) = kind else {
      checkLiteral(value, fits: field, place: place, at: path)
      return
    }
    if let name = value.string.flatMap({ TemplateText.wholeVariable($0) }) {
      // A variable that the state does not carry has been reported as such.
      guard let type = state?.fields.first(where: { $0.name == name })?.type, !type.isEmpty,
        !SwiftType.assignable(type, to: field.type)
      else { return }
      report(
        .typeMismatch, at: path,
        "\(place) cannot be '$\(name)', which is of type \(type); take a value of type "
          + field.type)
      return
    }
    checkLiteral(value, fits: field, place: place, at: path)
  }

  private mutating func checkLiteral(
    _ value: JSONValue, fits field: CaseDescription.Field, place: String, at path: [String]
  ) {
    // Lists and mappings may hold variables, of which only the whole is known to fit or not.
    if value.holdsVariables, value.string == nil { return }
    let type = SwiftType(field.type)
    guard !type.takes(value) else { return }
    report(
      .typeMismatch, at: path,
      "\(place) cannot be \(value.text); write \(type.demand(of: field.type))")
  }
}

extension JSONValue {
  /// Whether a template would put a value somewhere into this.
  fileprivate var holdsVariables: Bool {
    switch self {
    case .string(let text): text.contains("$")
    case .array(let values): values.contains { $0.holdsVariables }
    case .object(let members): members.values.contains { $0.holdsVariables }
    case .null, .bool, .integer, .number: false
    }
  }
}
