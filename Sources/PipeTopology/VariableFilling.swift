import PipeSupport
import PipeWire

/// Puts variables into the values of a document; not into its keys.
///
/// A value counts afterwards as if the text stood there: without quotes it may be a number.
struct VariableFilling: Examiner {
  /// What is wrong with the document's variables, and with the file that has some of them.
  var diagnostics: [Diagnostic] = []
  let source: SourceMap
  private let kind: FileKind
  private let variables: TopologyVariables
  /// Read when the first variable is met: a document without any needs none.
  private var known: [String: String]?
  /// What was put in that is no default, by the variables' names.
  private(set) var used: [String: String] = [:]
  /// Whether a variable that is not known may stand in a line that could not be read.
  private var isFileBroken = false

  init(_ variables: TopologyVariables, file: String, of kind: FileKind) {
    self.kind = kind
    self.variables = variables
    source = SourceMap(file: file)
  }

  /// The document with its variables put in; what has one that cannot be is broken.
  mutating func filled(_ root: YAMLNode) -> YAMLNode { filled(root, path: []) }

  private mutating func filled(_ node: YAMLNode, path: [String]) -> YAMLNode {
    var node = node
    switch node.content {
    case .scalar(let scalar):
      guard scalar.text.utf8.contains(UInt8(ascii: "$")) else { break }
      node.content = .scalar(filled(scalar, at: node.mark, isTemplate: Self.isTemplate(path)))
    case .sequence(let nodes):
      var elements: [YAMLNode] = []
      for (index, node) in nodes.enumerated() {
        elements.append(filled(node, path: path + [String(index)]))
      }
      node.content = .sequence(elements)
    case .mapping(var entries):
      for index in entries.indices {
        entries[index].value = filled(entries[index].value, path: path + [entries[index].key])
      }
      node.content = .mapping(entries)
    }
    return node
  }

  /// Whether a value is in the `send` of a pipe, where a dollar has a meaning of its own.
  private static func isTemplate(_ path: [String]) -> Bool {
    path.count > 2 && path[0] == "pipes" && path[2] == "send"
  }

  private mutating func filled(
    _ scalar: YAMLScalar, at mark: SourceMark, isTemplate: Bool
  ) -> YAMLScalar {
    var result = scalar
    result.text = ""
    do throws(VariableTextError) {
      for piece in try VariableText.parse(scalar.text) {
        switch piece {
        case .text(let text):
          if !isTemplate { warn(of: text, at: mark) }
          result.text += text
        case .dollar: result.text += isTemplate ? "$$" : "$"
        case .variable(let name, let rule):
          result.written = scalar.text
          guard let value = value(of: name, rule, at: mark) else {
            result.isBroken = true
            continue
          }
          result.text += isTemplate ? value.replacing("$", with: "$$") : value
        }
      }
    } catch {
      report(.badVariable, at: mark, error.description)
      result.isBroken = true
    }
    if result.isBroken { result.text = scalar.text }
    return result
  }

  /// What a variable gives: its value, or what its rule says; `nil` where it must be set and is not.
  private mutating func value(
    of name: String, _ rule: VariableText.Rule?, at mark: SourceMark
  ) -> String? {
    let value = values()[name]
    let isMissing = value == nil || rule?.coversEmpty == true && value?.isEmpty == true
    switch (rule?.operator, isMissing) {
    case (.alternative, true): return ""
    case (.alternative, false):
      used[name] = value
      return rule.flatMap { text(of: $0.text, at: mark) }
    case (.fallback, true): return rule.flatMap { text(of: $0.text, at: mark) }
    case (nil, true), (.required, true):
      reportMissing(name, isSet: value != nil, rule, at: mark)
      return nil
    case (nil, false), (.fallback, false), (.required, false):
      let isDefault = rule?.operator == .fallback && rule?.text == value.map { [.text($0)] }
      if !isDefault { used[name] = value }
      return value
    }
  }

  private mutating func text(of pieces: [VariableText.Piece], at mark: SourceMark) -> String? {
    var result: String? = ""
    for piece in pieces {
      switch piece {
      case .text(let text): result? += text
      case .dollar: result? += "$"
      case .variable(let name, let rule):
        if let value = value(of: name, rule, at: mark) { result? += value } else { result = nil }
      }
    }
    return result
  }

  private mutating func reportMissing(
    _ name: String, isSet: Bool, _ rule: VariableText.Rule?, at mark: SourceMark
  ) {
    guard !isFileBroken else { return }
    let reason = rule.flatMap { text(of: $0.text, at: mark) } ?? ""
    let advice =
      "set it in the environment or in '.env' beside the \(kind.noun) file"
      + (rule == nil ? ", or give it a default: '${\(name):-VALUE}'" : "")
    report(
      .unsetVariable, at: mark,
      "variable '\(name)' is \(isSet ? "empty" : "not set")\(reason.isEmpty ? "" : ": \(reason)"); \(advice)"
    )
  }

  private mutating func values() -> [String: String] {
    if let known { return known }
    let (values, problems) = variables.read()
    known = values
    isFileBroken = !problems.isEmpty
    diagnostics += problems
    return values
  }

  /// Elsewhere this would be a variable.
  private mutating func warn(of text: String, at mark: SourceMark) {
    for part in text.split(separator: "$", omittingEmptySubsequences: false).dropFirst() {
      let name = part.prefix { isVariableName("_" + String($0)) }
      guard isVariableName(String(name)) else { continue }
      report(
        .plainDollar, .warning, at: mark,
        "'$\(name)' is no variable and stands as it is; write '${\(name)}' for the variable, or "
          + "'$$\(name)' for this text")
    }
  }
}
