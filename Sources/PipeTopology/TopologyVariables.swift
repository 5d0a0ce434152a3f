import PipeSupport
import PipeSystem
import PipeWire

/// The variables that a file can use in the form `${NAME}`, with their values.
public struct TopologyVariables: Sendable {
  /// The variables that take precedence over the `.env` file.
  private let values: [String: String]
  /// The path of a `.env` file with further variables.
  private let file: String?

  /// Creates a set with the variables of the environment.
  public init() {
    self.init(ProcessEnvironment.current)
  }

  /// Creates a set with only these variables.
  public init(_ values: [String: String]) {
    self.values = values
    file = nil
  }

  /// Creates a set with the variables of the environment and of a `.env` file. The environment
  /// takes precedence.
  /// - Parameter file: The file's path. The file does not have to exist.
  package init(file: String, environment: [String: String] = ProcessEnvironment.current) {
    values = environment
    self.file = file
  }

  /// Returns the values of all variables, and the errors of the `.env` file.
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
      Diagnostic(file: file, position: $0.mark, code: .badVariable, message: $0.message)
    }
    return (added.values.merging(values) { _, own in own }, diagnostics)
  }
}

/// Replaces the variables in the values of a document, but not in its keys.
///
/// The text after the replacement is read as if it were written in the file. For example, an
/// unquoted text may become a number.
struct VariableExpander: DiagnosticCollector {
  /// The errors of the document's variables and of the `.env` file.
  var diagnostics: [Diagnostic] = []
  let source: SourceMap
  private let kind: FileKind
  private let variables: TopologyVariables
  /// The values of all variables; `nil` until the first variable is replaced.
  private var knownValues: [String: String]?
  /// The values of the variables that the document uses, by name. Values that equal the variable's
  /// default are not included.
  private(set) var usedValuesByName: [String: String] = [:]
  /// Whether the `.env` file has invalid lines. Such a line may be meant to define a missing
  /// variable, so missing variables are not reported in this case.
  private var isFileBroken = false

  init(_ variables: TopologyVariables, file: String, of kind: FileKind) {
    self.kind = kind
    self.variables = variables
    source = SourceMap(file: file)
  }

  /// Returns the document with its variables replaced. A scalar with a missing or invalid variable
  /// is marked as broken.
  mutating func substituted(_ root: YAMLNode) -> YAMLNode { substituted(root, path: []) }

  private mutating func substituted(_ node: YAMLNode, path: [String]) -> YAMLNode {
    var node = node
    switch node.content {
    case .scalar(let scalar):
      guard scalar.text.utf8.contains(UInt8(ascii: "$")) else { break }
      node.content = .scalar(
        substituted(scalar, at: node.position, isTemplate: Self.isTemplate(path)))
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

  /// Returns whether a value is part of a pipe's `send`. In a `send`, a dollar sign may also begin
  /// a variable of the event's template.
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
          result.writtenText = scalar.text
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

  /// Returns the text that replaces a variable; `nil` if the variable is missing and nothing
  /// replaces it.
  private mutating func value(
    of name: String, _ rule: VariableText.Rule?, at mark: TextPosition
  ) -> String? {
    let value = values()[name]
    let isMissing = value == nil || rule?.treatsEmptyAsMissing == true && value?.isEmpty == true
    switch (rule?.operator, isMissing) {
    case (.alternative, true): return ""
    case (.alternative, false):
      usedValuesByName[name] = value
      return rule.flatMap { text(of: $0.text, at: mark) }
    case (.fallback, true): return rule.flatMap { text(of: $0.text, at: mark) }
    case (nil, true), (.required, true):
      reportMissing(name, isSet: value != nil, rule, at: mark)
      return nil
    case (nil, false), (.fallback, false), (.required, false):
      let isDefault = rule?.operator == .fallback && rule?.text == value.map { [.text($0)] }
      if !isDefault { usedValuesByName[name] = value }
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
    if let knownValues { return knownValues }
    let (values, lineErrors) = variables.read()
    knownValues = values
    isFileBroken = !lineErrors.isEmpty
    diagnostics += lineErrors
    return values
  }

  /// Warns about `$NAME`. Other tools treat `$NAME` as a variable, but here it is plain text.
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

// Changes to a document that are made before its keys are read.
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

  /// Returns the values of the variables that a document uses. Values that equal the variable's
  /// default are not included.
  mutating func variables(
    in root: YAMLNode, of kind: FileKind, _ variables: TopologyVariables
  ) -> [String: String] {
    let resolvedRoot = merged(root.withoutSections).withoutSections
    var expander = VariableExpander(variables, file: source.file, of: kind)
    _ = expander.substituted(resolvedRoot)
    return expander.usedValuesByName
  }

  // MARK: Merge keys

  /// Returns a node with its merge keys resolved: if a mapping has the key `<<`, the entries of the
  /// mappings that this key names are added to the mapping.
  ///
  /// The mapping's own entries take precedence over added entries. If two added entries have the
  /// same key, the entry of the earlier mapping takes precedence.
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
        // Duplicate keys within one of the mappings are reported later, when that mapping is read.
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
        .badValue, at: node.position,
        "'<<' must be an alias of a mapping, or a list of aliases, not \(node.summary)")
      return nil
    }
  }
}

extension YAMLEntry {
  fileprivate var isMerge: Bool { key == "<<" && isKeyPlain }
}

extension YAMLNode {
  /// The document without its `x-…` sections. The runtime ignores these sections, so they can have
  /// any contents.
  fileprivate var withoutSections: YAMLNode {
    guard case .mapping(let entries) = content else { return self }
    var rest = self
    rest.content = .mapping(entries.filter { !$0.key.hasPrefix("x-") })
    return rest
  }
}

/// The variables that a file uses. With the values of these variables, another host reads the same
/// contents from the file.
package enum UsedVariables {
  /// The kind of a file.
  package enum Kind: Sendable {
    case topology, deployment
  }

  /// Returns the values of the variables that the file uses, by name. Values that equal the
  /// variable's default are not included.
  /// - Parameter environment: The variables that override the variables of a `.env` file in the same
  ///   directory.
  package static func of(
    _ input: TopologyInput, as kind: Kind,
    environment: [String: String] = ProcessEnvironment.current
  ) throws(TopologyErrors) -> [String: String] {
    // Errors of the text are reported later, when the file is read.
    guard let root = try? YAMLDocument.parse(try input.bytes()) else { return [:] }
    var reading = TopologyReading(file: input.name)
    return reading.variables(
      in: root, of: kind == .topology ? .topology : .deployment,
      TopologyVariables(file: input.pathBeside(".env"), environment: environment))
  }
}
