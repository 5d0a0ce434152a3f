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
        case .variable(let name, let standard):
          result.written = scalar.text
          guard let value = value(of: name, standard, at: mark) else {
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

  /// The value of a variable, or its default where it is not set or empty.
  private mutating func value(
    of name: String, _ standard: String?, at mark: SourceMark
  ) -> String? {
    let value = values()[name]
    if let standard, value?.isEmpty ?? true { return standard }
    if value == nil, !isFileBroken {
      report(
        .unsetVariable, at: mark,
        "variable '\(name)' is not set; set it in the environment or in '.env' beside the "
          + "\(kind.noun) file, or give it a default: '${\(name):-VALUE}'")
    }
    if let value, value != standard { used[name] = value }
    return value
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
