import PipeMachines
import PipeSupport

/// The declaration of a mapping in a file: the keys, in the order in which they are written, and
/// the model that stores their values.
struct TopologyMapping<Model: Sendable>: Sendable {
  /// A check that concerns several keys. Returns whether the model is usable.
  typealias Check = @Sendable (inout TopologyReading, TopologyFields, inout Model) -> Bool

  /// A description of the mapping as a whole, in one sentence.
  var meaning = ""
  /// The model of a mapping without keys.
  let emptyModel: Model
  let keys: [TopologyKey<Model>]
  /// The JSON Schema rules that concern several keys.
  var schemaRules: [String: JSONValue] = [:]
  var checkFields: Check = { _, _, _ in true }

  /// Reads a mapping into a model, and reports errors.
  /// - Parameter start: The model before any key is read.
  /// - Returns: The model; `nil` if the errors make the model unusable.
  func read(_ reading: inout TopologyReading, _ place: TopologyCursor, into start: Model) -> Model?
  {
    guard let members = reading.members(of: place) else { return nil }
    var fields = TopologyFields(cursor: place)
    var model = start
    let names = keys.map(\.name)
    for member in members where !names.contains(member.key) {
      reading.report(
        .unknownKey, at: member.position,
        "\(place.title): unknown key '\(member.key)'"
          + Suggestion.among(
            names, like: member.key, verb: "valid keys are", limit: names.count))
    }
    for key in keys {
      guard let place = members.first(where: { $0.key == key.name })?.value else { continue }
      fields.cursorsByKey[key.name] = place
      if key.readValue(&reading, place, &model) { fields.readKeys.insert(key.name) }
    }
    for key in keys where key.isRequired && fields.cursorsByKey[key.name] == nil {
      reading.report(.missingKey, place, "has no '\(key.name)'; add it")
    }
    return checkFields(&reading, fields, &model) ? model : nil
  }

  /// Returns the model as a document, from which ``read(_:_:into:)`` would read an equal model.
  func document(of model: Model) -> OrderedValue {
    .mapping(keys.compactMap { key in key.writeValue(model).map { (key: key.name, value: $0) } })
  }

  var schema: JSONValue {
    var schema: [String: JSONValue] = [
      "type": "object", "additionalProperties": false,
      "properties": .object(
        Dictionary(keys.map { ($0.name, $0.describedSchema(in: emptyModel)) }) { first, _ in first }
      ),
    ]
    let requiredNames = keys.filter(\.isRequired).map(\.name)
    if !requiredNames.isEmpty { schema["required"] = .texts(requiredNames) }
    return .object(schema.merging(schemaRules) { _, rule in rule })
  }

  /// The named definitions that the schemas of the mapping and its keys refer to.
  var schemaDefinitions: [String: JSONValue] {
    keys.reduce(into: [:]) { $0.merge($1.schemaDefinitions) { first, _ in first } }
  }

  /// Returns ``schemaDefinitions`` and, under the given name, the mapping's own schema.
  func schemaDefinitions(as name: String) -> [String: JSONValue] {
    schemaDefinitions.merging([name: schema.withDescription(meaning)]) { _, own in own }
  }

  var documentationRows: [TopologyRow] { keys.flatMap { $0.documentationRows(in: emptyModel) } }

  /// The lines of the mapping's table in the documentation.
  var tableLines: [String] {
    documentationRows.map { "| `\($0.key)` | \($0.meaning) | \($0.defaultText) |" }
  }
}

/// The keys that occur in one mapping in a file.
struct TopologyFields {
  /// The whole mapping.
  let cursor: TopologyCursor
  var cursorsByKey: [String: TopologyCursor] = [:]
  /// The keys that were read and have valid values.
  var readKeys: Set<String> = []

  /// The value of a key; `nil` if the mapping does not have the key.
  subscript(key: String) -> TopologyCursor? { cursorsByKey[key] }
}
