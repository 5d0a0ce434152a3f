import PipeMachines
import PipeSupport

/// A kind of value in a topology file, with its reader, its checks, its schema for editors and its
/// writer.
struct TopologyValue<Value: Sendable>: Sendable {
  typealias Read = @Sendable (inout TopologyReading, TopologyCursor) -> Value?
  typealias Write = @Sendable (Value) -> OrderedValue?

  /// The JSON Schema of the value.
  let schema: JSONValue
  /// The named definitions that the schema refers to.
  var definitions: [String: JSONValue] = [:]
  /// The documentation of the keys in the value.
  var rows: [TopologyRow] = []
  /// Writes the value, or returns `nil` to leave it out.
  let write: Write
  /// Reads the value, or returns `nil` after reporting an error.
  let read: Read

  /// This kind for an optional value.
  var optional: TopologyValue<Value?> {
    TopologyValue<Value?>(
      schema: schema, definitions: definitions, rows: rows, write: { $0.flatMap(write) }
    ) { read(&$0, $1).map(Optional.some) }
  }

  /// Returns the same kind with its schema as a named definition, which other schemas refer to.
  func defined(_ name: String, _ description: String) -> Self {
    var definitions = definitions
    definitions[name] = schema.described(description)
    return Self(
      schema: .reference(name), definitions: definitions, rows: rows, write: write, read: read)
  }

  /// A mapping of keys.
  static func keys(_ mapping: TopologyMapping<Value>) -> Self {
    Self(
      schema: mapping.schema, definitions: mapping.definitions, rows: mapping.rows,
      write: mapping.written
    ) { mapping.read(&$0, $1, into: mapping.start) }
  }
}

extension TopologyValue where Value: Equatable {
  /// A mapping of keys that is left out if it has only default values.
  static func omittingDefault(_ mapping: TopologyMapping<Value>) -> Self {
    let kind = keys(mapping)
    return Self(
      schema: kind.schema, definitions: kind.definitions, rows: kind.rows,
      write: { $0 == mapping.start ? nil : kind.write($0) }, read: kind.read)
  }
}

extension TopologyValue where Value: RawRepresentable<String> & CaseIterable {
  /// A choice among the cases of an enum.
  static var choice: Self {
    let choices = Value.allCases.map(\.rawValue)
    return Self(schema: .orVariable(["enum": .texts(choices)]), write: { .text($0.rawValue) }) {
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

extension TopologyValue<String> {
  static var text: Self { text("text") }

  /// - Parameter hint: The kind of text, as named in messages.
  static func text(_ hint: String) -> Self {
    Self(schema: .someText, write: OrderedValue.text) { $0.string($1, hint: hint) }
  }

  /// A topology's name.
  static var name: Self {
    Self(
      schema: .orVariable(.pattern("^[A-Za-z0-9][A-Za-z0-9_.-]{0,40}$")), write: OrderedValue.text
    ) {
      reading, cursor in
      guard let text = reading.string(cursor, hint: "a name"),
        reading.checkName(text, dots: true, at: cursor.node.mark, title: cursor.title)
      else { return nil }
      return text
    }
  }
}

extension TopologyValue<Int> {
  /// - Parameter unit: The things that are counted, as named in messages.
  static func integer(in range: ClosedRange<Int>, unit: String) -> Self {
    let schema: JSONValue = [
      "type": "integer", "minimum": .integer(Int64(range.lowerBound)),
      "maximum": .integer(Int64(range.upperBound)),
    ]
    return Self(schema: .orVariable(schema), write: { .leaf(.integer(Int64($0))) }) {
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

extension TopologyValue<Int> {
  /// A size in bytes, written with its unit.
  static func byteSize(in range: ClosedRange<Int>) -> Self {
    Self(
      schema: .orVariable(.pattern(ByteSizeText.pattern)), write: { .text(ByteSizeText.write($0)) }
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

extension TopologyValue<Double> {
  /// A fraction from 0 to 1.
  static var unitFraction: Self {
    let schema: JSONValue = ["type": "number", "minimum": 0, "maximum": 1]
    return Self(schema: .orVariable(schema), write: { .leaf(.number($0)) }) { reading, cursor in
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

extension TopologyValue<Bool> {
  static var booleanValue: Self {
    Self(schema: .orVariable(["type": "boolean"]), write: { .leaf(.bool($0)) }) { reading, cursor in
      if case .bool(let value) = cursor.node.scalar?.typedValue { return value }
      reading.refuse(cursor, wanted: "true or false")
      return nil
    }
  }
}

extension TopologyValue<Duration> {
  static var duration: Self {
    length(.orVariable(.pattern(DurationText.pattern)), isPositive: false)
      .defined("duration", "A length of time with units: 200ms, 1.5s, 1m30s, 2h.")
  }

  static var positiveDuration: Self {
    let text = "A length of time above zero, with units: 200ms, 1.5s, 1m30s, 2h."
    var kind = length(
      ["$ref": "#/$defs/duration", "pattern": "[1-9]|\\$\\{"], isPositive: true)
    kind.definitions = duration.definitions
    return kind.defined("positiveDuration", text)
  }

  private static func length(_ schema: JSONValue, isPositive: Bool) -> Self {
    Self(schema: schema, write: { .text(DurationText.write($0)) }) { reading, cursor in
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
