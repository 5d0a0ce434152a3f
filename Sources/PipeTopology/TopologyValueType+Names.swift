import PipeMachines
import PipeSupport
import PipeWire

extension TopologyValueType {
  /// Returns the type of a mapping of named items. Items of all kinds share one namespace.
  /// - Parameters:
  ///   - kind: The kind of the items, as named in messages and in the schema's definitions.
  ///   - name: The key path of an item's name.
  ///   - isEmpty: Whether the mapping may be empty.
  static func named<Model>(
    _ kind: TopologyReading.Kind, _ mapping: TopologyMapping<Model>,
    _ name: WritableKeyPath<Model, String> & Sendable, isEmpty: Bool = true
  ) -> Self where Value == [Model] {
    @Sendable func written(_ models: [Model]) -> OrderedValue? {
      let members = models.map { ($0[keyPath: name], mapping.document(of: $0)) }
      return isEmpty ? .named(members) : .mapping(members)
    }
    return Self(
      schema: .mappingByName(kind.rawValue, isEmpty: isEmpty),
      schemaDefinitions: mapping.schemaDefinitions(as: kind.rawValue), writeValue: written
    ) { reading, cursor in
      let members = reading.readNamedMembers(of: cursor, kind: kind)
      if !isEmpty, case .mapping(let entries) = cursor.node.content, entries.isEmpty {
        reading.report(
          .missingKey, cursor,
          "is empty; a topology must have at least one \(kind.rawValue)")
      }
      return members.compactMap { key, cursor in
        var model = mapping.emptyModel
        model[keyPath: name] = key
        let resolvedItem = mapping.read(&reading, cursor, into: model)
        // Omits an item if its name already belongs to an item of another kind, since further
        // checks would report misleading errors.
        return reading.definitionsByName[key]?.kind == kind ? resolvedItem : nil
      }
    }
  }

  /// Returns the type of a list of items. Invalid items are omitted.
  /// - Parameter kind: The kind of the items, as named in messages and in the schema's definitions.
  static func list<Element>(
    of kind: String, _ mapping: TopologyMapping<Element>
  ) -> Self where Value == [Element] {
    Self(
      schema: .list(of: kind), schemaDefinitions: mapping.schemaDefinitions(as: kind),
      writeValue: { $0.isEmpty ? nil : .list($0.map(mapping.document)) }
    ) { reading, cursor in
      guard let elements = reading.elements(of: cursor, hint: "a list of \(kind)s") else {
        return nil
      }
      let read = elements.enumerated().map { index, element in
        mapping.read(&reading, element.named("\(kind) \(index + 1)"), into: mapping.emptyModel)
      }
      // Later checks find the remaining elements by their index in the list without the invalid
      // elements.
      reading.source.renumberElements(
        keeping: read.indices.filter { read[$0] != nil }, of: cursor.keyPath)
      return read.compactMap(\.self)
    }
  }
}

extension TopologyValueType<[String]> {
  /// The type of a list of unique names.
  static var uniqueNames: Self {
    Self(schema: .nodeList(minItems: 1), writeValue: OrderedValue.names) { $0.readNames($1) }
  }

  /// The type of a list of unique node names: the nodes to watch. Without the key, all nodes are
  /// watched.
  static var watchedNames: Self {
    Self(schema: uniqueNames.schema, writeValue: OrderedValue.names) { reading, cursor in
      let list = reading.readNames(cursor)
      if list?.isEmpty == true {
        reading.report(.badValue, cursor, "is empty; remove it to watch all nodes")
      }
      return list
    }
  }
}

extension TopologyValueType<[Diagnostic.Code]> {
  /// The type of a list of unique warning codes.
  static var warningCodes: Self {
    let choices = Diagnostic.Code.allCases.map(\.rawValue)
    return Self(
      schema: .reference("nodeList"), writeValue: { $0.isEmpty ? nil : .names($0.map(\.rawValue)) }
    ) {
      reading, cursor in
      reading.readNames(cursor, of: "codes of warnings")?.compactMap { text in
        if let code = Diagnostic.Code(rawValue: text) { return code }
        reading.report(
          .badValue, cursor,
          "lists '\(text)', which is not the code of a warning"
            + Suggestion.among(choices, like: text, verb: "valid codes are"))
        return nil
      }
    }
  }
}

extension TopologyValueType<[String]> {
  /// The type of a list of state labels.
  static var stateLabels: Self {
    Self(schema: .reference("nodeList"), writeValue: { $0.isEmpty ? nil : .names($0) }) {
      reading, cursor in reading.readNames(cursor, of: "states")
    }
  }
}

extension TopologyValueType<[String]> {
  /// The type of a list of former names of a node or composite.
  static var formerNames: Self {
    Self(schema: .reference("nodeList"), writeValue: { $0.isEmpty ? nil : .names($0) }) {
      reading, cursor in
      reading.readNames(cursor)?.filter {
        reading.checkName($0, allowingDots: false, at: cursor.node.position, title: cursor.title)
      }
    }
  }

  /// The type of a list of former names of a pipe.
  static var formerPipeNames: Self {
    Self(schema: .reference("nodeList"), writeValue: { $0.isEmpty ? nil : .names($0) }) {
      reading, cursor in
      reading.readNames(cursor)?.filter { name in
        if PipeSpecification.isValidName(name) { return true }
        reading.report(
          .badName, cursor,
          "lists '\(name)', but a pipe name has 1 to 128 characters without spaces")
        return false
      }
    }
  }
}

extension TopologyReading {
  /// Returns the members of a mapping of named items, such as `nodes` or `places`. The named items
  /// of a file share one namespace.
  fileprivate mutating func readNamedMembers(
    of cursor: TopologyCursor, kind: Kind
  ) -> [(key: String, value: TopologyCursor)] {
    var result: [(key: String, value: TopologyCursor)] = []
    for member in members(of: cursor, noun: kind.rawValue, hint: "a mapping from names") ?? [] {
      let owner = "\(kind.rawValue) '\(member.key)'"
      if let taken = definitionsByName[member.key] {
        report(
          .nameTaken, at: member.position,
          "\(owner): the name is already used by the \(taken.kind.rawValue) at line "
            + "\(taken.position.line), column \(taken.position.column); rename one of them")
      } else {
        definitionsByName[member.key] = (kind, member.position)
      }
      if checkName(member.key, allowingDots: false, at: member.position, title: kind.rawValue),
        checkNotReserved(member.key, at: member.position, title: kind.rawValue)
      {
        checkText(of: member, title: owner)
        result.append((member.key, member.value.named(owner)))
      }
    }
    return result
  }

  /// Returns a list of unique names.
  mutating func readNames(_ cursor: TopologyCursor, of what: String = "names") -> [String]? {
    let hint = "a list of \(what)"
    guard let elements = elements(of: cursor, hint: hint) else { return nil }
    var names: [String] = []
    for element in elements {
      guard let name = string(element, hint: hint) else { continue }
      if names.contains(name) {
        report(.duplicateKey, element, "lists '\(name)' twice; remove one of them")
      } else {
        names.append(name)
      }
    }
    return names
  }

  /// Returns the names in a list; `nil` if the value is not a list. Also records the location of
  /// each name, so that the source map finds an element by its name.
  mutating func readNames(recordingPositionsOf cursor: TopologyCursor, of what: String = "names")
    -> [String]?
  {
    guard case .sequence(let nodes) = cursor.node.content else { return nil }
    for node in nodes {
      guard let scalar = node.scalar else { continue }
      source.record(cursor.path + [scalar.text], key: node.position, value: node.position)
    }
    return readNames(cursor, of: what) ?? []
  }
}
