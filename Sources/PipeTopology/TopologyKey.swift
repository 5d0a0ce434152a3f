import PipeMachines
import PipeSupport

/// The declaration of one key in a file, from which the reader, the writer, the JSON Schema and the
/// documentation are derived.
struct TopologyKey<Model: Sendable>: Sendable {
  let name: String
  /// Whether the key is required.
  let isRequired: Bool
  /// Reads the key's value into the model. Returns whether the value was valid.
  let readValue: @Sendable (inout TopologyReading, TopologyCursor, inout Model) -> Bool
  /// Returns the key's value to write; `nil` omits the key.
  let writeValue: @Sendable (Model) -> OrderedValue?
  private let meaning: String
  private let defaultText: String?
  private let schema: JSONValue
  let schemaDefinitions: [String: JSONValue]
  private let documentationRows: [TopologyRow]

  /// - Parameters:
  ///   - kind: The kind of the value.
  ///   - meaning: A description in one line, with code in backquotes.
  ///   - defaultText: The default in words. If `nil`, the documentation shows the key's value in a
  ///     model that was read from a file without keys.
  init<Value>(
    _ name: String, _ path: WritableKeyPath<Model, Value> & Sendable,
    _ kind: TopologyValueType<Value>,
    _ meaning: String, default defaultText: String? = nil, isRequired: Bool = false
  ) {
    self.name = name
    self.isRequired = isRequired
    self.meaning = meaning
    self.defaultText = isRequired ? "required" : defaultText
    schema = kind.schema
    schemaDefinitions = kind.schemaDefinitions
    documentationRows = kind.documentationRows
    readValue = { reading, place, model in
      guard let value = kind.readValue(&reading, place) else { return false }
      model[keyPath: path] = value
      return true
    }
    writeValue = { kind.writeValue($0[keyPath: path]) }
  }

  /// Makes a key with an optional value.
  init<Value>(
    _ name: String, _ path: WritableKeyPath<Model, Value?> & Sendable,
    _ kind: TopologyValueType<Value>,
    _ meaning: String, default defaultText: String = "", isRequired: Bool = false
  ) {
    self.init(name, path, kind.optional, meaning, default: defaultText, isRequired: isRequired)
  }

  /// Returns the default value for the documentation.
  /// - Parameter start: The model of a file without keys.
  private func defaultText(in start: Model) -> String {
    if let defaultText { return defaultText }
    guard case .leaf(let value)? = writeValue(start) else { return "" }
    return switch value {
    case .string, .bool: "`\(value.string ?? value.text)`"
    default: value.text
    }
  }

  func describedSchema(in start: Model) -> JSONValue {
    var text = meaning + "."
    let defaultText = defaultText(in: start)
    if !isRequired, !defaultText.isEmpty { text += " Default: \(defaultText)." }
    return schema.withDescription(text.replacing("`", with: ""))
  }

  /// Returns the key's row in the documentation. If the value is a mapping, also returns the rows
  /// of the mapping's keys.
  func documentationRows(in start: Model) -> [TopologyRow] {
    [(name, meaning, defaultText(in: start))]
      + documentationRows.map {
        (key: "\(name).\($0.key)", meaning: $0.meaning, defaultText: $0.defaultText)
      }
  }
}

/// A row of a documentation table, which describes one key.
typealias TopologyRow = (key: String, meaning: String, defaultText: String)

extension JSONValue {
  /// Returns the schema with a description.
  func withDescription(_ text: String) -> JSONValue {
    guard case .object(var members) = self else { return self }
    members["description"] = .string(text)
    return .object(members)
  }
}
