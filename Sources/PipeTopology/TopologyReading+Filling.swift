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
