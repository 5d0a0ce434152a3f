import PipeSupport
import PipeSystem
import PipeWire

/// What `${NAME}` in a topology file stands for.
public struct TopologyVariables: Sendable {
  /// These count first.
  private let values: [String: String]
  /// The path of a file that has others.
  private let file: String?

  /// The environment's variables.
  public init() {
    self.init(ProcessEnvironment.current)
  }

  /// These variables and no others.
  public init(_ values: [String: String]) {
    self.values = values
    file = nil
  }

  /// The environment's variables, and of those that it lacks the ones of a file `.env`.
  /// - Parameter file: The file's path; there need be none.
  package init(file: String, environment: [String: String] = ProcessEnvironment.current) {
    values = environment
    self.file = file
  }

  /// All of them, and what is wrong with the file.
  func read() -> (values: [String: String], diagnostics: [Diagnostic]) {
    // A directory of that name is something else.
    guard let file, FileSystem.exists(file), !FileSystem.isDirectory(file) else {
      return (values, [])
    }
    let bytes: [UInt8]
    do {
      bytes = try TopologyInput.file(file).bytes()
    } catch {
      return (values, error.diagnostics)
    }
    let added = EnvironmentFile(bytes)
    let diagnostics = added.problems.map {
      Diagnostic(file: file, mark: $0.mark, code: .badVariable, message: $0.message)
    }
    return (added.values.merging(values) { _, own in own }, diagnostics)
  }
}

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

// What is done to a document before its keys are read.
extension TopologyReading {
  /// The document with what `<<` names merged in, with its variables put in, and without sections
  /// `x-…`.
  mutating func filledIn(
    _ root: YAMLNode, of kind: FileKind, variables: TopologyVariables
  ) -> YAMLNode {
    let whole = merged(root.withoutSections).withoutSections
    var filling = VariableFilling(variables, file: source.file, of: kind)
    let filled = filling.filled(whole)
    diagnostics += filling.diagnostics
    return filled
  }

  /// What the variables in a document stand for, where that is not their default.
  mutating func variables(
    in root: YAMLNode, of kind: FileKind, _ variables: TopologyVariables
  ) -> [String: String] {
    let whole = merged(root.withoutSections).withoutSections
    var filling = VariableFilling(variables, file: source.file, of: kind)
    _ = filling.filled(whole)
    return filling.used
  }

  // MARK: Merge keys

  /// A part in which mappings have the entries of those that their `<<` names; a key of their own
  /// counts first, then that of an earlier one.
  private mutating func merged(_ node: YAMLNode) -> YAMLNode {
    var node = node
    switch node.content {
    case .scalar: break
    case .sequence(let nodes): node.content = .sequence(nodes.map { merged($0) })
    case .mapping(let entries):
      let whole = entries.map { entry in
        var entry = entry
        entry.value = merged(entry.value)
        return entry
      }
      node.content = .mapping(merged(whole))
    }
    return node
  }

  private mutating func merged(_ entries: [YAMLEntry]) -> [YAMLEntry] {
    guard entries.contains(where: \.isMerge) else { return entries }
    for merge in entries.filter(\.isMerge).dropFirst() {
      report(
        .duplicateKey, at: merge.keyMark,
        "'<<' is named twice in one mapping; name both aliases in one list: '<<: [*a, *b]'")
    }
    var known = Set(entries.filter { !$0.isMerge }.map(\.key))
    var result: [YAMLEntry] = []
    for entry in entries {
      guard entry.isMerge else {
        result.append(entry)
        continue
      }
      for source in sources(of: entry) {
        // Within one source a key that stands twice is found when it is read.
        let added = source.filter { !known.contains($0.key) }
        known.formUnion(added.map(\.key))
        result += added
      }
    }
    return result
  }

  private mutating func sources(of merge: YAMLEntry) -> [[YAMLEntry]] {
    let nodes: [YAMLNode] =
      if case .sequence(let nodes) = merge.value.content { nodes } else { [merge.value] }
    return nodes.compactMap { node in
      if case .mapping(let entries) = node.content { return entries }
      report(
        .badValue, at: node.mark,
        "'<<' must be an alias of a mapping, or a list of such, not \(node.summary)")
      return nil
    }
  }
}

extension YAMLEntry {
  fileprivate var isMerge: Bool { key == "<<" && isKeyPlain }
}

extension YAMLNode {
  /// Without the sections `x-…` of one's own.
  fileprivate var withoutSections: YAMLNode {
    guard case .mapping(let entries) = content else { return self }
    var rest = self
    rest.content = .mapping(entries.filter { !$0.key.hasPrefix("x-") })
    return rest
  }
}

/// What the variables of a file stand for here, for another place where it is to be read the same.
package enum UsedVariables {
  /// What kind of file it is.
  package enum Kind: Sendable {
    case topology, deployment
  }

  /// The values by the variables' names, but for those that stand for their default.
  /// - Parameter environment: The variables that count before those of a file `.env` beside it.
  package static func of(
    _ input: TopologyInput, as kind: Kind,
    environment: [String: String] = ProcessEnvironment.current
  ) throws(TopologyErrors) -> [String: String] {
    // What is wrong with the text is told by who reads it.
    guard let root = try? YAMLDocument.parse(try input.bytes()) else { return [:] }
    var reading = TopologyReading(file: input.name)
    return reading.variables(
      in: root, of: kind == .topology ? .topology : .deployment,
      TopologyVariables(file: input.beside(".env"), environment: environment))
  }
}
