import PipeMachines
import PipeSupport

/// One key of a topology file: the reader, the JSON Schema, what writes it and the documentation go by it.
struct TopologyKey<Model: Sendable>: Sendable {
  let name: String
  /// Whether it must not be left out.
  let isNeeded: Bool
  /// Reads its value into the model; returns whether there is one.
  let read: @Sendable (inout TopologyReading, TopologyPlace, inout Model) -> Bool
  /// Writes its value; `nil` where it is left out.
  let write: @Sendable (Model) -> OrderedValue?
  private let meaning: String
  private let standard: String?
  private let schema: JSONValue
  fileprivate let definitions: [String: JSONValue]
  private let rows: [TopologyRow]

  /// - Parameters:
  ///   - kind: What it takes.
  ///   - meaning: What it says, in one line; code stands between backquotes.
  ///   - standard: What holds where it is left out; `nil` for the value that the model starts with.
  init<Value>(
    _ name: String, _ path: WritableKeyPath<Model, Value> & Sendable, _ kind: TopologyValue<Value>,
    _ meaning: String, standard: String? = nil, isNeeded: Bool = false
  ) {
    self.name = name
    self.isNeeded = isNeeded
    self.meaning = meaning
    self.standard = isNeeded ? "needed" : standard
    schema = kind.schema
    definitions = kind.definitions
    rows = kind.rows
    read = { reading, place, model in
      guard let value = kind.read(&reading, place) else { return false }
      model[keyPath: path] = value
      return true
    }
    write = { kind.write($0[keyPath: path]) }
  }

  /// A key of something that there need not be.
  init<Value>(
    _ name: String, _ path: WritableKeyPath<Model, Value?> & Sendable, _ kind: TopologyValue<Value>,
    _ meaning: String, standard: String = "", isNeeded: Bool = false
  ) {
    self.init(name, path, kind.optional, meaning, standard: standard, isNeeded: isNeeded)
  }

  /// - Parameter start: The model without any keys.
  fileprivate func standard(in start: Model) -> String {
    if let standard { return standard }
    guard case .leaf(let value)? = write(start) else { return "" }
    return switch value {
    case .string, .bool: "`\(value.string ?? value.text)`"
    default: value.text
    }
  }

  fileprivate func described(in start: Model) -> JSONValue {
    var text = meaning + "."
    let standard = standard(in: start)
    if !isNeeded, !standard.isEmpty { text += " Default: \(standard)." }
    return schema.described(text.replacing("`", with: ""))
  }

  /// Its row of the documentation, and those of the keys in its mapping.
  fileprivate func rows(in start: Model) -> [TopologyRow] {
    [(name, meaning, standard(in: start))]
      + rows.map { (key: "\(name).\($0.key)", meaning: $0.meaning, standard: $0.standard) }
  }
}

/// A row of a table in docs/TOPOLOGY.md.
typealias TopologyRow = (key: String, meaning: String, standard: String)

/// The keys that a mapping of a topology file has, in the order in which they are written, and the model
/// that they are read into.
struct TopologyMapping<Model: Sendable>: Sendable {
  /// Checks what keys say of each other; returns whether the model can be used.
  typealias Check = @Sendable (inout TopologyReading, TopologyFields, inout Model) -> Bool

  /// What it is as a whole, in a sentence.
  var meaning = ""
  /// The model without any keys.
  let start: Model
  let keys: [TopologyKey<Model>]
  /// What a JSON Schema says of several keys together.
  var rules: [String: JSONValue] = [:]
  var check: Check = { _, _, _ in true }

  /// Reads a mapping into a model; `nil`, of which has been told, where that cannot be used.
  func read(_ reading: inout TopologyReading, _ place: TopologyPlace, into start: Model) -> Model? {
    guard let members = reading.members(of: place) else { return nil }
    var fields = TopologyFields(place: place)
    var model = start
    let names = keys.map(\.name)
    for member in members where !names.contains(member.key) {
      reading.report(
        .unknownKey, at: member.mark,
        "\(place.title) has no key '\(member.key)'"
          + Suggestion.among(
            names, like: member.key, verb: "the keys are", limit: names.count))
    }
    for key in keys {
      guard let place = members.first(where: { $0.key == key.name })?.value else { continue }
      fields.places[key.name] = place
      if key.read(&reading, place, &model) { fields.read.insert(key.name) }
    }
    for key in keys where key.isNeeded && fields.places[key.name] == nil {
      reading.report(.missingKey, place, "has no '\(key.name)'; add it")
    }
    return check(&reading, fields, &model) ? model : nil
  }

  /// What is read back to an equal model.
  func written(_ model: Model) -> OrderedValue {
    .mapping(keys.compactMap { key in key.write(model).map { (key: key.name, value: $0) } })
  }

  var schema: JSONValue {
    var schema: [String: JSONValue] = [
      "type": "object", "additionalProperties": false,
      "properties": .object(
        Dictionary(keys.map { ($0.name, $0.described(in: start)) }) { first, _ in first }),
    ]
    let needed = keys.filter(\.isNeeded).map(\.name)
    if !needed.isEmpty { schema["required"] = .texts(needed) }
    return .object(schema.merging(rules) { _, rule in rule })
  }

  /// What its schema, and those of its keys, refer to by name.
  var definitions: [String: JSONValue] {
    keys.reduce(into: [:]) { $0.merge($1.definitions) { first, _ in first } }
  }

  /// The same, and its own schema.
  func definitions(as name: String) -> [String: JSONValue] {
    definitions.merging([name: schema.described(meaning)]) { _, own in own }
  }

  var rows: [TopologyRow] { keys.flatMap { $0.rows(in: start) } }

  /// The lines of its table in docs/TOPOLOGY.md.
  var lines: [String] { rows.map { "| `\($0.key)` | \($0.meaning) | \($0.standard) |" } }
}

/// The keys of one mapping as they stand in a file.
struct TopologyFields {
  /// The whole mapping.
  let place: TopologyPlace
  var places: [String: TopologyPlace] = [:]
  /// Those with a value that could be read.
  var read: Set<String> = []

  /// The value of a key; `nil` where it is left out.
  subscript(key: String) -> TopologyPlace? { places[key] }
}

extension JSONValue {
  /// A schema with a description.
  func described(_ text: String) -> JSONValue {
    guard case .object(var members) = self else { return self }
    members["description"] = .string(text)
    return .object(members)
  }
}
