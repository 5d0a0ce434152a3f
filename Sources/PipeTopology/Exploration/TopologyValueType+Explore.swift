import PipeMachines
import PipeSupport
import PipeWire

/// A property as written in the file: one of the two keys has a value, and the other is `nil`.
struct PropertyEntry: Sendable {
  var never: StateCombination?
  var alwaysPossible: StateCombination?

  init() {}

  init(_ property: ExploredProperty) {
    switch property.demand {
    case .never: never = property.states
    case .alwaysPossible: alwaysPossible = property.states
    }
  }

  func property(named name: String) -> ExploredProperty? {
    if let never { return ExploredProperty(name: name, demand: .never, states: never) }
    return alwaysPossible.map {
      ExploredProperty(name: name, demand: .alwaysPossible, states: $0)
    }
  }
}

// The types of the values in the `explore` section.
extension TopologyValueType {
  /// Returns the type of a mapping that has its own table in the documentation.
  static func section(_ mapping: TopologyMapping<Value>, as name: String) -> Self {
    Self(
      schema: .reference(name), schemaDefinitions: mapping.schemaDefinitions(as: name),
      writeValue: mapping.document
    ) { mapping.read(&$0, $1, into: mapping.emptyModel) }
  }
}

extension JSONValue {
  /// Returns the schema of a mapping from names to values.
  fileprivate static func byName(_ schema: JSONValue) -> JSONValue {
    ["type": "object", "additionalProperties": schema]
  }

  fileprivate static let patterns: JSONValue = [
    "type": "array", "items": ["anyOf": [.reference("case"), .variable]],
  ]

  fileprivate static let effectPattern: JSONValue = [
    "type": "array", "items": ["anyOf": [.reference("case"), .variable, ["type": "null"]]],
  ]

  fileprivate static let valueSet: JSONValue = [
    "anyOf": [
      ["type": "array", "minItems": 1], .pattern("^-?[0-9]+\\.\\.-?[0-9]+$"), .variable,
    ]
  ]

  fileprivate static let states: JSONValue = [
    "type": "object", "minProperties": 1,
    "additionalProperties": TopologyValueType<StateCondition>.condition.schema,
  ]
}

extension TopologyValueType<[String: [EventPattern]]> {
  /// The type of a mapping from nodes and composites to lists of events.
  static var eventsFromOutside: Self {
    Self(
      schema: .byName(.patterns),
      schemaDefinitions: TopologyValueType<JSONValue>.state.schemaDefinitions,
      // An empty mapping means that no events come from outside.
      writeValue: { OrderedValue.patterns($0) ?? .mapping([]) }
    ) { $0.readPatternLists($1, hint: "a mapping such as { door: [open] }") }
  }
}

extension TopologyValueType<[String: [String: EffectPattern]]> {
  /// The type of a mapping from nodes, and then from outputs, to lists of events. A null in a list
  /// means that the effect may end without an event.
  static var eventsOfEffects: Self {
    Self(
      schema: .byName(.byName(.effectPattern)),
      schemaDefinitions: TopologyValueType<JSONValue>.state.schemaDefinitions,
      writeValue: { gives in
        .named(
          gives.sorted { $0.key < $1.key }.map { node, effects in
            (
              node,
              .named(
                effects.sorted { $0.key < $1.key }.map { ($0.key, .literal(.array($0.value.json))) }
              )
                ?? .mapping([])
            )
          })
      }
    ) { reading, cursor in
      reading.byName(cursor, hint: "a mapping such as { door: { close: [doorHasLocked] } }") {
        $0.byName($1, hint: "a mapping such as { close: [doorHasLocked] }") { $0.effectPattern($1) }
      }
    }
  }
}

extension TopologyValueType<[String: [String: [String: ValueSet]]]> {
  /// The type of a mapping from events, such as `door.open`, to fields with the values to try.
  static var valuesToTry: Self {
    Self(
      schema: .byName(.byName(.valueSet)),
      writeValue: { values in
        .named(
          values.sorted { $0.key < $1.key }.flatMap { owner, events in
            events.sorted { $0.key < $1.key }.map { event, fields in
              (
                "\(owner).\(event)",
                .named(fields.sorted { $0.key < $1.key }.map { ($0.key, .literal($0.value.json)) })
                  ?? .mapping([])
              )
            }
          })
      }
    ) { $0.valuesToTry($1) }
  }
}

extension TopologyValueType<[String: Int]> {
  /// The type of a mapping from nodes to numbers of instances.
  static var keyCounts: Self {
    let number = TopologyValueType<Int>.integer(in: ExploreSection.keyCountRange, unit: "instances")
    return Self(
      schema: .byName(number.schema),
      writeValue: { counts in
        .named(counts.sorted { $0.key < $1.key }.map { ($0.key, .leaf(.integer(Int64($0.value)))) })
      }
    ) { reading, cursor in
      reading.byName(cursor, hint: "a mapping such as { orders: 2 }", number.readValue)
    }
  }
}

extension TopologyValueType<[String: [String: Int]]> {
  /// The type of a mapping from nodes to fields and their moduli.
  ///
  /// For example: `{ passengers: { round: 8 } }`
  static var folds: Self {
    let number = TopologyValueType<Int>.integer(in: 1...65_536, unit: "values")
    return Self(
      schema: .byName(.byName(number.schema)),
      writeValue: { folds in
        .named(
          folds.sorted { $0.key < $1.key }.map { node, fields in
            (
              node,
              .named(
                fields.sorted { $0.key < $1.key }.map { ($0.key, .leaf(.integer(Int64($0.value)))) }
              )
                ?? .mapping([])
            )
          })
      }
    ) { reading, cursor in
      reading.byName(cursor, hint: "a mapping such as { passengers: { round: 8 } }") {
        $0.byName($1, hint: "a mapping such as { round: 8 }", number.readValue)
      }
    }
  }
}

extension TopologyValueType<[String]> {
  /// The type of the list of nodes under `any`, which may be empty.
  static var nodesToAssume: Self {
    Self(schema: .reference("nodeList"), writeValue: { $0.isEmpty ? nil : OrderedValue.names($0) })
    {
      $0.readNames($1)
    }
  }
}

extension TopologyValueType<StateCombination> {
  static var combination: Self {
    Self(schema: .states, writeValue: OrderedValue.combination) { reading, cursor in
      let states = reading.byName(
        cursor,
        hint: "a mapping such as { door: open }",
        TopologyValueType<StateCondition>.condition.readValue)
      guard let states else { return nil }
      if states.isEmpty, case .mapping(let entries) = cursor.node.content, entries.isEmpty {
        reading.report(.badValue, cursor, "is empty; name a node and its state: { door: open }")
      }
      return states.isEmpty ? nil : StateCombination(states)
    }
  }
}

extension TopologyValueType<[StateCombination]> {
  /// The type of a combination of states, or a list of combinations.
  static var ends: Self {
    let one = TopologyValueType<StateCombination>.combination
    return Self(
      schema: ["anyOf": [one.schema, ["type": "array", "items": one.schema]]],
      writeValue: { ends in
        switch ends.count {
        case 0: nil
        case 1: one.writeValue(ends[0])
        default: .list(ends.compactMap(one.writeValue))
        }
      }
    ) { reading, cursor in
      guard case .sequence = cursor.node.content else {
        return one.readValue(&reading, cursor).map { [$0] }
      }
      return reading.elements(of: cursor, hint: "a list of states")?
        .compactMap { one.readValue(&reading, $0) }
    }
  }
}

extension TopologyValueType<[ExploredProperty]> {
  /// The type of a mapping from names to properties.
  static var properties: Self {
    let mapping = TopologyKeys.property
    return Self(
      schema: .mappingByName("property"),
      schemaDefinitions: mapping.schemaDefinitions(as: "property"),
      writeValue: { properties in
        .named(properties.map { ($0.name, mapping.document(of: PropertyEntry($0))) })
      }
    ) { reading, cursor in
      let hint = "a mapping such as { shut: { never: { door: open } } }"
      guard let members = reading.members(of: cursor, noun: "property", hint: hint) else {
        return nil
      }
      return members.compactMap { member in
        let owner = "property '\(member.key)'"
        guard
          reading.checkName(member.key, allowingDots: false, at: member.position, title: "property")
        else {
          return nil
        }
        return mapping.read(&reading, member.value.named(owner), into: mapping.emptyModel)?
          .property(named: member.key)
      }
    }
  }
}

extension OrderedValue {
  fileprivate static func patterns(_ lists: [String: [EventPattern]]) -> OrderedValue? {
    named(
      lists.sorted { $0.key < $1.key }
        .map { ($0.key, .literal(.array($0.value.map(\.json)))) })
  }

  fileprivate static func combination(_ combination: StateCombination) -> OrderedValue? {
    named(
      combination.states.sorted { $0.key < $1.key }.map { ($0.key, .literal($0.value.state)) })
  }
}

extension EventPattern {
  /// The pattern as written in a file.
  fileprivate var json: JSONValue {
    guard !fields.isEmpty else { return .string(event) }
    return .object([
      event: .object(
        fields.mapValues { set in
          if case .values(let values) = set, values.count == 1 { return values[0] }
          return set.json
        })
    ])
  }
}

extension EffectPattern {
  /// The pattern as written in a file.
  fileprivate var json: [JSONValue] { events.map(\.json) + (mayEnd ? [.null] : []) }
}

extension TopologyReading {
  /// Reads the members of a mapping. Invalid members are reported and omitted.
  fileprivate mutating func byName<Value>(
    _ cursor: TopologyCursor, hint: String,
    _ read: (inout TopologyReading, TopologyCursor) -> Value?
  ) -> [String: Value]? {
    guard let members = members(of: cursor, hint: hint) else { return nil }
    var result: [String: Value] = [:]
    for member in members { result[member.key] = read(&self, member.value) }
    return result
  }

  fileprivate mutating func readPatternLists(
    _ cursor: TopologyCursor, hint: String
  ) -> [String: [EventPattern]]? {
    byName(cursor, hint: hint) { reading, cursor in
      reading.elements(of: cursor, hint: "a list of events")?.compactMap { reading.pattern($0) }
    }
  }

  /// Reads the events of an effect. A null at the end of the list means that the effect may end
  /// without an event.
  fileprivate mutating func effectPattern(_ cursor: TopologyCursor) -> EffectPattern? {
    guard var elements = elements(of: cursor, hint: "a list of events") else { return nil }
    let mayEnd = elements.last?.node.scalar?.value == .null
    if mayEnd { elements.removeLast() }
    if let early = elements.first(where: { $0.node.scalar?.value == .null }) {
      report(
        .badValue, early,
        "has '~' before the end of the list; write '~' (the effect ends without an event) only "
          + "once, as the last element")
      return nil
    }
    return EffectPattern(elements.compactMap { pattern($0) }, mayEnd: mayEnd)
  }

  /// Reads an event whose fields may have values or ranges.
  private mutating func pattern(_ cursor: TopologyCursor) -> EventPattern? {
    guard let json = readCase(cursor, noun: "an event"), let name = json.caseName,
      let members = json.caseMembers
    else { return nil }
    var fields: [String: ValueSet] = [:]
    for (field, value) in members {
      guard let text = value.string, ValueSet.looksLikeRange(text) else {
        fields[field] = .values([value])
        continue
      }
      guard let range = ValueSet(range: text) else {
        reportRange(
          text, at: source.position(of: cursor.path + [name, field]), title: cursor.title)
        return nil
      }
      fields[field] = range
    }
    return EventPattern(name, fields: fields)
  }

  fileprivate mutating func valuesToTry(
    _ cursor: TopologyCursor
  ) -> [String: [String: [String: ValueSet]]]? {
    let hint = "a mapping such as { door.personsHaveEntered: { persons: [0, 1] } }"
    guard let members = members(of: cursor, hint: hint) else { return nil }
    var result: [String: [String: [String: ValueSet]]] = [:]
    for member in members {
      let parts = member.key.split(separator: ".", omittingEmptySubsequences: false)
      guard parts.count == 2, !parts[0].isEmpty, isIdentifier(String(parts[1])) else {
        report(
          .badName, at: member.position,
          "\(cursor.title): '\(member.key)' is not an event; write 'NODE.EVENT', as in "
            + "'door.personsHaveEntered'")
        continue
      }
      result[String(parts[0]), default: [:]][String(parts[1])] = byName(
        member.value, hint: "a mapping such as { persons: [0, 1] }"
      ) { $0.valueSet($1) }
    }
    return result
  }

  private mutating func valueSet(_ cursor: TopologyCursor) -> ValueSet? {
    if let text = cursor.node.scalar?.text, ValueSet.looksLikeRange(text) {
      if let range = ValueSet(range: text) { return range }
      reportRange(text, at: cursor.node.position, title: cursor.title)
      return nil
    }
    guard case .sequence(let nodes) = cursor.node.content, !nodes.isEmpty else {
      refuse(cursor, wanted: "a list of values, or a range of integers such as 0..4")
      return nil
    }
    guard nodes.count <= ValueSet.maximumValueCount else {
      report(
        .badValue, cursor, "lists \(nodes.count) values; the limit is \(ValueSet.maximumValueCount)"
      )
      return nil
    }
    guard case .array(let values)? = json(cursor) else { return nil }
    return .values(values)
  }

  private mutating func reportRange(_ text: String, at mark: TextPosition, title: String) {
    report(
      .badValue, at: mark,
      "\(title) cannot be \(text): a range goes from a lower to a higher integer, and has at most "
        + "\(ValueSet.maximumValueCount) values")
  }
}
