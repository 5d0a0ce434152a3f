import PipeMachines
import PipeSupport

/// The type of a value in a file. Reads, checks and writes such values, and has a JSON Schema for
/// editors.
struct TopologyValueType<Value: Sendable>: Sendable {
  typealias Read = @Sendable (inout TopologyReading, TopologyCursor) -> Value?
  typealias Write = @Sendable (Value) -> OrderedValue?

  /// The JSON Schema of the value.
  let schema: JSONValue
  /// The named definitions that the schema refers to.
  var schemaDefinitions: [String: JSONValue] = [:]
  /// The rows of documentation for the keys, if the value is a mapping.
  var documentationRows: [TopologyRow] = []
  /// Returns the document to write for a value; `nil` omits the value.
  let writeValue: Write
  /// Reads a value. If the value is invalid, reports errors and returns `nil`.
  let readValue: Read

  /// A variant of this type for optional values. Without a value, the writer omits the key.
  var optional: TopologyValueType<Value?> {
    TopologyValueType<Value?>(
      schema: schema, schemaDefinitions: schemaDefinitions, documentationRows: documentationRows,
      writeValue: { $0.flatMap(writeValue) }
    ) { readValue(&$0, $1).map(Optional.some) }
  }

  /// Returns the same type, but with its schema as a named definition that other schemas can refer
  /// to.
  func withDefinition(_ name: String, _ description: String) -> Self {
    var definitions = schemaDefinitions
    definitions[name] = schema.withDescription(description)
    return Self(
      schema: .reference(name), schemaDefinitions: definitions,
      documentationRows: documentationRows, writeValue: writeValue, readValue: readValue)
  }

  /// Returns the type of a mapping with the declared keys.
  static func keys(_ mapping: TopologyMapping<Value>) -> Self {
    Self(
      schema: mapping.schema, schemaDefinitions: mapping.schemaDefinitions,
      documentationRows: mapping.documentationRows,
      writeValue: mapping.document
    ) { mapping.read(&$0, $1, into: mapping.emptyModel) }
  }
}

extension TopologyValueType where Value: Equatable {
  /// Returns the type of a mapping with the declared keys. If all values are defaults, the writer
  /// omits the mapping.
  static func omittingDefault(_ mapping: TopologyMapping<Value>) -> Self {
    let kind = keys(mapping)
    return Self(
      schema: kind.schema, schemaDefinitions: kind.schemaDefinitions,
      documentationRows: kind.documentationRows,
      writeValue: { $0 == mapping.emptyModel ? nil : kind.writeValue($0) },
      readValue: kind.readValue)
  }
}

extension TopologyValueType where Value: RawRepresentable<String> & CaseIterable {
  /// The type of a choice among the cases of an enum.
  static var choice: Self {
    let choices = Value.allCases.map(\.rawValue)
    return Self(schema: .orVariable(["enum": .texts(choices)]), writeValue: { .text($0.rawValue) })
    {
      reading, cursor in
      let scalar = cursor.node.scalar
      if let value = scalar?.value.string.flatMap(Value.init(rawValue:)) { return value }
      reading.report(
        .badValue, cursor,
        "cannot be \(cursor.node.summary)"
          + Suggestion.among(choices, like: scalar?.text ?? "", verb: "valid values are"))
      return nil
    }
  }
}

extension TopologyValueType<String> {
  static var text: Self { text("text") }

  /// - Parameter hint: The kind of text that is expected, as named in messages.
  static func text(_ hint: String) -> Self {
    Self(schema: .nonemptyText, writeValue: OrderedValue.text) { $0.string($1, hint: hint) }
  }

  /// The type of a topology's name.
  static var name: Self {
    Self(
      schema: .orVariable(.pattern("^[A-Za-z0-9][A-Za-z0-9_.-]{0,40}$")),
      writeValue: OrderedValue.text
    ) {
      reading, cursor in
      guard let text = reading.string(cursor, hint: "a name"),
        reading.checkName(text, allowingDots: true, at: cursor.node.position, title: cursor.title)
      else { return nil }
      return text
    }
  }
}

extension TopologyValueType<Int> {
  /// - Parameter unit: The noun for the counted things, as named in messages.
  static func integer(in range: ClosedRange<Int>, unit: String) -> Self {
    let schema: JSONValue = [
      "type": "integer", "minimum": .integer(Int64(range.lowerBound)),
      "maximum": .integer(Int64(range.upperBound)),
    ]
    return Self(schema: .orVariable(schema), writeValue: { .leaf(.integer(Int64($0))) }) {
      reading, cursor in
      if let value = cursor.node.scalar?.typedValue.integer.flatMap(Int.init(exactly:)),
        range.contains(value)
      {
        return value
      }
      reading.refuse(
        cursor,
        wanted: "an integer number of \(unit) from \(range.lowerBound) to \(range.upperBound)")
      return nil
    }
  }
}

extension TopologyValueType<Int> {
  /// Returns the type of a size in bytes, which is written with a unit.
  static func byteSize(in range: ClosedRange<Int>) -> Self {
    Self(
      schema: .orVariable(.pattern(ByteSizeText.pattern)),
      writeValue: { .text(ByteSizeText.write($0)) }
    ) { reading, cursor in
      if let text = cursor.node.scalar?.value.string, let value = ByteSizeText.parse(text),
        range.contains(value)
      {
        return value
      }
      let bounds = (ByteSizeText.write(range.lowerBound), ByteSizeText.write(range.upperBound))
      reading.refuse(cursor, wanted: "a size from \(bounds.0) to \(bounds.1), such as 10MB")
      return nil
    }
  }
}

extension TopologyValueType<Double> {
  /// The type of a fraction from 0 to 1.
  static var unitFraction: Self {
    let schema: JSONValue = ["type": "number", "minimum": 0, "maximum": 1]
    return Self(schema: .orVariable(schema), writeValue: { .leaf(.number($0)) }) {
      reading, cursor in
      switch cursor.node.scalar?.typedValue {
      case .integer(let value) where (0...1).contains(value): return Double(value)
      case .number(let value) where (0...1).contains(value): return value
      default:
        reading.refuse(cursor, wanted: "a number from 0 to 1")
        return nil
      }
    }
  }
}

extension TopologyValueType<Bool> {
  static var booleanValue: Self {
    Self(schema: .orVariable(["type": "boolean"]), writeValue: { .leaf(.bool($0)) }) {
      reading, cursor in
      if case .bool(let value) = cursor.node.scalar?.typedValue { return value }
      reading.refuse(cursor, wanted: "true or false")
      return nil
    }
  }
}

extension TopologyValueType<Duration> {
  static var duration: Self {
    durationValue(.orVariable(.pattern(DurationText.pattern)), isPositive: false)
      .withDefinition("duration", "A length of time with units: 200ms, 1.5s, 1m30s, 2h.")
  }

  static var positiveDuration: Self {
    let text = "A length of time above zero, with units: 200ms, 1.5s, 1m30s, 2h."
    var kind = durationValue(
      ["$ref": "#/$defs/duration", "pattern": "[1-9]|\\$\\{"], isPositive: true)
    kind.schemaDefinitions = duration.schemaDefinitions
    return kind.withDefinition("positiveDuration", text)
  }

  private static func durationValue(_ schema: JSONValue, isPositive: Bool) -> Self {
    Self(schema: schema, writeValue: { .text(DurationText.write($0)) }) { reading, cursor in
      let scalar = cursor.node.scalar
      if let scalar, scalar.value.string != nil, let value = DurationText.parse(scalar.text) {
        if value > .zero || !isPositive { return value }
        reading.report(.badDuration, cursor, "must be longer than \(scalar.text)")
        return nil
      }
      let problem = scalar.map { DurationText.ParseFailure(with: $0.text) } ?? .notADuration
      let found = problem == .notADuration ? ", not \(cursor.node.summary)" : ""
      reading.report(.badDuration, cursor, "\(problem)\(found)")
      return nil
    }
  }
}
