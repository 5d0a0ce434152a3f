import PipeSupport
import PipeSystem
import PipeWire

/// The values of `${NAME}` in a topology file.
public struct TopologyVariables: Sendable {
  /// The variables with priority.
  private let values: [String: String]
  /// The path of a `.env` file with further variables.
  private let file: String?

  /// Makes the environment's variables available.
  public init() {
    self.init(ProcessEnvironment.current)
  }

  /// Makes exactly these variables available.
  public init(_ values: [String: String]) {
    self.values = values
    file = nil
  }

  /// Makes the environment's variables available, and a `.env` file for variables that the
  /// environment lacks.
  /// - Parameter file: The file's path; the file need not exist.
  package init(file: String, environment: [String: String] = ProcessEnvironment.current) {
    values = environment
    self.file = file
  }

  /// Returns all variables, and the errors of the file.
  func read() -> (values: [String: String], diagnostics: [Diagnostic]) {
    // A directory of that name is not a `.env` file.
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
    let diagnostics = added.lineErrors.map {
      Diagnostic(file: file, mark: $0.mark, code: .badVariable, message: $0.message)
    }
    return (added.values.merging(values) { _, own in own }, diagnostics)
  }
}

/// Replaces the variables in the values, but not in the keys, of a document.
///
/// The result is read as if it were written in the file: without quotes it may be a number.
struct VariableExpander: DiagnosticCollector {
  /// The errors of the document's variables and of the `.env` file.
  var diagnostics: [Diagnostic] = []
  let source: SourceMap
  private let kind: FileKind
  private let variables: TopologyVariables
  /// All variables; read at the first use, since a document without variables needs none.
  private var known: [String: String]?
  /// The variables that were used and differ from their default, by name.
  private(set) var used: [String: String] = [:]
  /// Whether the `.env` file has lines that could not be read, and that may define a missing variable.
  private var isFileBroken = false

  init(_ variables: TopologyVariables, file: String, of kind: FileKind) {
    self.kind = kind
    self.variables = variables
    source = SourceMap(file: file)
  }

  /// Returns the document with its variables replaced; a scalar with a missing or invalid variable
  /// is broken.
  mutating func substituted(_ root: YAMLNode) -> YAMLNode { substituted(root, path: []) }

  private mutating func substituted(_ node: YAMLNode, path: [String]) -> YAMLNode {
    var node = node
    switch node.content {
    case .scalar(let scalar):
      guard scalar.text.utf8.contains(UInt8(ascii: "$")) else { break }
      node.content = .scalar(substituted(scalar, at: node.mark, isTemplate: Self.isTemplate(path)))
    case .sequence(let nodes):
      var elements: [YAMLNode] = []
      for (index, node) in nodes.enumerated() {
        elements.append(substituted(node, path: path + [String(index)]))
      }
      node.content = .sequence(elements)
    case .mapping(var entries):
      for index in entries.indices {
        entries[index].value = substituted(entries[index].value, path: path + [entries[index].key])
      }
      node.content = .mapping(entries)
    }
    return node
  }

  /// Returns whether a value is in a pipe's `send`, where a dollar has its own meaning.
  private static func isTemplate(_ path: [String]) -> Bool {
    path.count > 2 && path[0] == "pipes" && path[2] == "send"
  }

  private mutating func substituted(
    _ scalar: YAMLScalar, at mark: TextPosition, isTemplate: Bool
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

  /// Returns the value of a variable by its rule; `nil` if it must be set but is missing.
  private mutating func value(
    of name: String, _ rule: VariableText.Rule?, at mark: TextPosition
  ) -> String? {
    let value = values()[name]
    let isMissing = value == nil || rule?.treatsEmptyAsMissing == true && value?.isEmpty == true
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

  private mutating func text(of pieces: [VariableText.Piece], at mark: TextPosition) -> String? {
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
    _ name: String, isSet: Bool, _ rule: VariableText.Rule?, at mark: TextPosition
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
    let (values, lineErrors) = variables.read()
    known = values
    isFileBroken = !lineErrors.isEmpty
    diagnostics += lineErrors
    return values
  }

  /// Warns about `$NAME`, which is a variable in other tools but plain text here.
  private mutating func warn(of text: String, at mark: TextPosition) {
    for part in text.split(separator: "$", omittingEmptySubsequences: false).dropFirst() {
      let name = part.prefix { isVariableName("_" + String($0)) }
      guard isVariableName(String(name)) else { continue }
      report(
        .plainDollar, .warning, at: mark,
        "'$\(name)' is not expanded and stays as text; write '${\(name)}' for the variable, or "
          + "'$$\(name)' for this text")
    }
  }
}

// Transformations of a document before its keys are read.
extension TopologyReading {
  /// Returns the document with merge keys resolved, variables replaced, and `x-…` sections removed.
  mutating func preprocessed(
    _ root: YAMLNode, of kind: FileKind, variables: TopologyVariables
  ) -> YAMLNode {
    let resolvedRoot = merged(root.withoutSections).withoutSections
    var expander = VariableExpander(variables, file: source.file, of: kind)
    let substituted = expander.substituted(resolvedRoot)
    diagnostics += expander.diagnostics
    return substituted
  }

  /// Returns the values of the variables in a document that differ from their default.
  mutating func variables(
    in root: YAMLNode, of kind: FileKind, _ variables: TopologyVariables
  ) -> [String: String] {
    let resolvedRoot = merged(root.withoutSections).withoutSections
    var expander = VariableExpander(variables, file: source.file, of: kind)
    _ = expander.substituted(resolvedRoot)
    return expander.used
  }

  // MARK: Merge keys

  /// Returns a node with the merge keys of its mappings resolved: each mapping gets the entries of
  /// the mappings that its `<<` names.
  ///
  /// A mapping's own keys take precedence, then the keys of earlier mappings.
  private mutating func merged(_ node: YAMLNode) -> YAMLNode {
    var node = node
    switch node.content {
    case .scalar: break
    case .sequence(let nodes): node.content = .sequence(nodes.map { merged($0) })
    case .mapping(let entries):
      let resolvedRoot = entries.map { entry in
        var entry = entry
        entry.value = merged(entry.value)
        return entry
      }
      node.content = .mapping(merged(resolvedRoot))
    }
    return node
  }

  private mutating func merged(_ entries: [YAMLEntry]) -> [YAMLEntry] {
    guard entries.contains(where: \.isMerge) else { return entries }
    for merge in entries.filter(\.isMerge).dropFirst() {
      report(
        .duplicateKey, at: merge.keyPosition,
        "duplicate key '<<' in one mapping; list both aliases in one '<<': '<<: [*a, *b]'")
    }
    var known = Set(entries.filter { !$0.isMerge }.map(\.key))
    var result: [YAMLEntry] = []
    for entry in entries {
      guard entry.isMerge else {
        result.append(entry)
        continue
      }
      for source in sources(of: entry) {
        // A duplicate key within one source is reported when the mapping is read.
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
        "'<<' must be an alias of a mapping, or a list of aliases, not \(node.summary)")
      return nil
    }
  }
}

extension YAMLEntry {
  fileprivate var isMerge: Bool { key == "<<" && isKeyPlain }
}

extension YAMLNode {
  /// The document without the user's own `x-…` sections.
  fileprivate var withoutSections: YAMLNode {
    guard case .mapping(let entries) = content else { return self }
    var rest = self
    rest.content = .mapping(entries.filter { !$0.key.hasPrefix("x-") })
    return rest
  }
}

/// The variables that a file uses on this host, so that another host reads the file the same way.
package enum UsedVariables {
  /// The kind of a file.
  package enum Kind: Sendable {
    case topology, deployment
  }

  /// Returns the values of the variables that differ from their default, by name.
  /// - Parameter environment: The variables that override the variables of a `.env` file in the same
  ///   directory.
  package static func of(
    _ input: TopologyInput, as kind: Kind,
    environment: [String: String] = ProcessEnvironment.current
  ) throws(TopologyErrors) -> [String: String] {
    // The reader of the file reports errors of the text.
    guard let root = try? YAMLDocument.parse(try input.bytes()) else { return [:] }
    var reading = TopologyReading(file: input.name)
    return reading.variables(
      in: root, of: kind == .topology ? .topology : .deployment,
      TopologyVariables(file: input.beside(".env"), environment: environment))
  }
}
