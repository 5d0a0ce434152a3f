import PipeMachines
import PipeWire

extension TopologyChecker {
  /// What a payload is checked as.
  enum PayloadKind {
    case state
    /// Some fields of a state, or none of them.
    case condition
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
      case .state, .condition: ("state", .unknownState)
      case .event: ("event", .unknownEvent)
      }
    let isBare = json.string != nil
    let labelPath = isBare ? path : path + [json.caseName ?? ""]
    let label = isBare ? source.mark(of: path) : source.mark(ofKey: labelPath)
    for problem in cases.problems(with: json) {
      let text = "\(owner): " + problem.text(noun: noun, owner: holder)
      switch problem {
      case .noCase: return false
      case .unknownCase:
        report(code, at: label, text)
        return false
      case .unknownField(let name, _):
        report(.unknownField, at: source.mark(ofKey: labelPath + [name]), text)
      case .missingField:
        if case .condition = kind { continue }
        report(.missingField, at: label, text)
      case .wrongType(let field, let value, _):
        if case .event = kind, value.isTemplate { continue }
        report(.typeMismatch, at: labelPath + [field.name], text)
      }
    }
    if case .event(let state?) = kind, let found = cases.first(where: { $0.name == json.caseName })
    {
      checkVariables(of: json, from: state, as: found, owner: owner, at: labelPath)
    }
    return true
  }

  /// Checks the values that an event's template takes from a state.
  private mutating func checkVariables(
    of json: JSONValue, from state: CaseDescription, as event: CaseDescription, owner: String,
    at path: [String]
  ) {
    for field in event.fields {
      // A variable that the state does not carry has been reported as such.
      guard let name = json.caseMembers?[field.name]?.string.flatMap(TemplateText.wholeVariable),
        let type = state.fields.first(where: { $0.name == name })?.type, !type.isEmpty,
        !SwiftType.assignable(type, to: field.type)
      else { continue }
      report(
        .typeMismatch, at: path + [field.name],
        "\(owner): field '\(field.name)' of event \(event.wording) cannot be '$\(name)', which is of "
          + "type \(type); take a value of type \(field.type)")
    }
  }
}

extension JSONValue {
  /// Whether it is known only with a state which value this is.
  fileprivate var isTemplate: Bool {
    if let text = string { TemplateText.wholeVariable(text) != nil } else { holdsVariables }
  }

  /// Whether a template would put a value somewhere into this.
  private var holdsVariables: Bool {
    switch self {
    case .string(let text): text.contains("$")
    case .array(let values): values.contains { $0.holdsVariables }
    case .object(let members): members.values.contains { $0.holdsVariables }
    case .null, .bool, .integer, .number: false
    }
  }
}
