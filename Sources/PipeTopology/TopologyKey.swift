import PipeMachines
import PipeSupport

/// One key of a topology file, used by the reader, the writer, the JSON Schema and the documentation.
struct TopologyKey<Model: Sendable>: Sendable {
  let name: String
  /// Whether the key is required.
  let isRequired: Bool
  /// Reads the key's value into the model; returns whether there is a value.
  let read: @Sendable (inout TopologyReading, TopologyCursor, inout Model) -> Bool
  /// Writes the key's value, or returns `nil` to leave out the key.
  let write: @Sendable (Model) -> OrderedValue?
  private let meaning: String
  private let defaultText: String?
  private let schema: JSONValue
  fileprivate let definitions: [String: JSONValue]
  private let rows: [TopologyRow]

  /// - Parameters:
  ///   - kind: The kind of the value.
  ///   - meaning: A description in one line, with code in backquotes.
  ///   - defaultText: The default in words; `nil` for the value that the model starts with.
  init<Value>(
    _ name: String, _ path: WritableKeyPath<Model, Value> & Sendable, _ kind: TopologyValue<Value>,
    _ meaning: String, default defaultText: String? = nil, isRequired: Bool = false
  ) {
    self.name = name
    self.isRequired = isRequired
    self.meaning = meaning
    self.defaultText = isRequired ? "required" : defaultText
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

  /// Makes a key with an optional value.
  init<Value>(
    _ name: String, _ path: WritableKeyPath<Model, Value?> & Sendable, _ kind: TopologyValue<Value>,
    _ meaning: String, default defaultText: String = "", isRequired: Bool = false
  ) {
    self.init(name, path, kind.optional, meaning, default: defaultText, isRequired: isRequired)
  }

  /// - Parameter start: The model without any keys.
  fileprivate func defaultText(in start: Model) -> String {
    if let defaultText { return defaultText }
    guard case .leaf(let value)? = write(start) else { return "" }
    return switch value {
    case .string, .bool: "`\(value.string ?? value.text)`"
    default: value.text
    }
  }

  fileprivate func described(in start: Model) -> JSONValue {
    var text = meaning + "."
    let defaultText = defaultText(in: start)
    if !isRequired, !defaultText.isEmpty { text += " Default: \(defaultText)." }
    return schema.described(text.replacing("`", with: ""))
  }

  /// Returns the key's row in the documentation, and the rows of the keys in its mapping.
  fileprivate func rows(in start: Model) -> [TopologyRow] {
    [(name, meaning, defaultText(in: start))]
      + rows.map { (key: "\(name).\($0.key)", meaning: $0.meaning, defaultText: $0.defaultText) }
  }
}

/// A row of a table in docs/TOPOLOGY.md.
typealias TopologyRow = (key: String, meaning: String, defaultText: String)

/// The keys of a mapping in a topology file, in the order in which they are written, and the model
/// that they are read into.
struct TopologyMapping<Model: Sendable>: Sendable {
  /// Checks the keys against each other; returns whether the model is usable.
  typealias Check = @Sendable (inout TopologyReading, TopologyFields, inout Model) -> Bool

  /// A description of the mapping as a whole, in one sentence.
  var meaning = ""
  /// The model without any keys.
  let start: Model
  let keys: [TopologyKey<Model>]
  /// JSON Schema rules on several keys together.
  var rules: [String: JSONValue] = [:]
  var check: Check = { _, _, _ in true }

  /// Reads a mapping into a model; returns `nil` after reporting an error that makes the model unusable.
  func read(_ reading: inout TopologyReading, _ place: TopologyCursor, into start: Model) -> Model?
  {
    guard let members = reading.members(of: place) else { return nil }
    var fields = TopologyFields(place: place)
    var model = start
    let names = keys.map(\.name)
    for member in members where !names.contains(member.key) {
      reading.report(
        .unknownKey, at: member.mark,
        "\(place.title): unknown key '\(member.key)'"
          + Suggestion.among(
            names, like: member.key, verb: "valid keys are", limit: names.count))
    }
    for key in keys {
      guard let place = members.first(where: { $0.key == key.name })?.value else { continue }
      fields.places[key.name] = place
      if key.read(&reading, place, &model) { fields.read.insert(key.name) }
    }
    for key in keys where key.isRequired && fields.places[key.name] == nil {
      reading.report(.missingKey, place, "has no '\(key.name)'; add it")
    }
    return check(&reading, fields, &model) ? model : nil
  }

  /// Returns a document that is read back to an equal model.
  func written(_ model: Model) -> OrderedValue {
    .mapping(keys.compactMap { key in key.write(model).map { (key: key.name, value: $0) } })
  }

  var schema: JSONValue {
    var schema: [String: JSONValue] = [
      "type": "object", "additionalProperties": false,
      "properties": .object(
        Dictionary(keys.map { ($0.name, $0.described(in: start)) }) { first, _ in first }),
    ]
    let requiredNames = keys.filter(\.isRequired).map(\.name)
    if !requiredNames.isEmpty { schema["required"] = .texts(requiredNames) }
    return .object(schema.merging(rules) { _, rule in rule })
  }

  /// The named definitions that the schemas of the mapping and its keys refer to.
  var definitions: [String: JSONValue] {
    keys.reduce(into: [:]) { $0.merge($1.definitions) { first, _ in first } }
  }

  /// Returns ``definitions`` together with the mapping's own schema.
  func definitions(as name: String) -> [String: JSONValue] {
    definitions.merging([name: schema.described(meaning)]) { _, own in own }
  }

  var rows: [TopologyRow] { keys.flatMap { $0.rows(in: start) } }

  /// The lines of its table in docs/TOPOLOGY.md.
  var lines: [String] { rows.map { "| `\($0.key)` | \($0.meaning) | \($0.defaultText) |" } }
}

/// The keys of one mapping as written in a file.
struct TopologyFields {
  /// The whole mapping.
  let place: TopologyCursor
  var places: [String: TopologyCursor] = [:]
  /// The keys with a value that could be read.
  var read: Set<String> = []

  /// The value of a key; `nil` if the key is left out.
  subscript(key: String) -> TopologyCursor? { places[key] }
}

extension JSONValue {
  /// Returns the schema with a description.
  func described(_ text: String) -> JSONValue {
    guard case .object(var members) = self else { return self }
    members["description"] = .string(text)
    return .object(members)
  }
}
