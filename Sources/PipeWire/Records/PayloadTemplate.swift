import PipeMachines
import PipeSupport

/// The event that a pipe rule sends, made from the state that was entered.
///
/// A string that consists of `$name` alone becomes the state's value of that name, with its type. A
/// `$name` inside a longer string becomes text; `$$` is a dollar sign. A value that the state
/// leaves out, as Swift leaves out a `nil`, is `null`.
package struct PayloadTemplate: Hashable, Sendable {
  private enum Piece: Hashable {
    case bytes([UInt8])
    /// A value with its JSON type.
    case whole(Int)
    /// A value inside a string.
    case embedded(Int)
  }

  private var pieces: [Piece] = []
  private var keys: [[UInt8]] = []
  /// The bytes of a template without variables.
  package private(set) var constant: [UInt8]?

  /// Parses a template: a bare label, or `{label: {field: value}}`.
  package init(_ json: JSONValue) throws(PayloadTemplateError) {
    if case .string(let label) = json {
      append(JSONValue.string(label).bytes)
    } else {
      try append(json)
    }
    if keys.isEmpty {
      guard case .bytes(let bytes)? = pieces.first else { return }
      constant = bytes
    }
  }

  /// The names of the state's values that the template uses.
  package var variables: [String] { keys.map { String(decoding: $0, as: UTF8.self) } }

  /// The variable for the key of the instance, in rules of a keyed node.
  package static let keyVariable = "key"

  /// Returns the event's JSON, made from the JSON of the state that was entered.
  /// - Parameter key: The key of the instance that entered the state; `nil` if the node has one
  ///   machine.
  package func render(state: [UInt8], key: String? = nil) -> [UInt8] {
    if let constant { return constant }
    var out: [UInt8] = []
    let ranges = ranges(in: state)
    for piece in pieces {
      switch piece {
      case .bytes(let bytes): out.append(contentsOf: bytes)
      case .whole(let index) where isKey(index) && key != nil:
        out.append(contentsOf: JSONValue.string(key ?? "").bytes)
      case .embedded(let index) where isKey(index) && key != nil:
        out.append(contentsOf: JSONValue.string(key ?? "").bytes.dropFirst().dropLast())
      case .whole(let index):
        if let range = ranges[index] {
          out.append(contentsOf: state[range])
        } else {
          out.append(contentsOf: "null".utf8)
        }
      case .embedded(let index):
        if let range = ranges[index] { Self.embed(state[range], into: &out) }
      }
    }
    return out
  }

  private func isKey(_ index: Int) -> Bool { keys[index].elementsEqual(Self.keyVariable.utf8) }

  /// Returns the ranges of the values in `{"case":{"key":value,…}}`.
  private func ranges(in state: [UInt8]) -> [Range<Int>?] {
    var ranges: [Range<Int>?] = Array(repeating: nil, count: keys.count)
    var tokens = JSONTokens()
    guard state.withUnsafeBytes({ tokens.read($0) }), tokens.list.count > 2,
      tokens.list[0].kind == .object, tokens.list[2].kind == .object
    else { return ranges }
    var position = 3
    while position < tokens.list[2].next {
      let key = state[Int(tokens.list[position].start)..<Int(tokens.list[position].end)]
      if let index = keys.firstIndex(where: { $0[...] == key }) {
        ranges[index] = tokens.list[position + 1].range
      }
      position = Int(tokens.list[position + 1].next)
    }
    return ranges
  }

  // MARK: Taking apart

  private mutating func append(_ json: JSONValue) throws(PayloadTemplateError) {
    switch json {
    case .string(let text): try append(string: text)
    case .array(let values):
      for (index, value) in values.enumerated() {
        append(index == 0 ? "[" : ",")
        try append(value)
      }
      append(values.isEmpty ? "[]" : "]")
    case .object(let members):
      for (index, key) in members.keys.sorted().enumerated() {
        append(index == 0 ? "{" : ",")
        append(JSONValue.string(key).bytes)
        append(":")
        try append(members[key]!)
      }
      append(members.isEmpty ? "{}" : "}")
    case .null, .bool, .integer, .number: append(json.bytes)
    }
  }

  private mutating func append(string text: String) throws(PayloadTemplateError) {
    let parts = try TemplateText.parse(text)
    if parts.count == 1, case .variable(let name) = parts[0] {
      pieces.append(.whole(index(of: name)))
      return
    }
    append("\"")
    for part in parts {
      switch part {
      case .text(let text): append(Array(JSONValue.string(text).bytes.dropFirst().dropLast()))
      case .variable(let name): pieces.append(.embedded(index(of: name)))
      }
    }
    append("\"")
  }

  private mutating func append(_ text: String) { append(Array(text.utf8)) }

  private mutating func append(_ bytes: [UInt8]) {
    if case .bytes(let before)? = pieces.last {
      pieces[pieces.count - 1] = .bytes(before + bytes)
    } else {
      pieces.append(.bytes(bytes))
    }
  }

  private mutating func index(of name: String) -> Int {
    let key = Array(name.utf8)
    if let index = keys.firstIndex(of: key) { return index }
    keys.append(key)
    return keys.count - 1
  }

  /// Appends a value's JSON inside a JSON string.
  private static func embed(_ value: ArraySlice<UInt8>, into out: inout [UInt8]) {
    if value.first == UInt8(ascii: "\"") {
      out.append(contentsOf: value.dropFirst().dropLast())
    } else {
      let text = String(decoding: value, as: UTF8.self)
      out.append(contentsOf: JSONValue.string(text).bytes.dropFirst().dropLast())
    }
  }
}

/// The `$` syntax of payload templates: `$name` takes a value, `$$` is a dollar sign.
package enum TemplateText {
  /// A piece of a string.
  package enum Piece: Hashable, Sendable {
    case text(String)
    case variable(String)
  }

  /// Splits a string into pieces. Adjacent text is one piece.
  package static func parse(_ text: String) throws(PayloadTemplateError) -> [Piece] {
    var pieces: [Piece] = []
    var plain = ""
    var rest = text.unicodeScalars[...]
    while let scalar = rest.popFirst() {
      guard scalar == "$" else {
        plain.unicodeScalars.append(scalar)
        continue
      }
      if rest.first == "$" {
        plain.unicodeScalars.append(rest.removeFirst())
        continue
      }
      var end = rest.startIndex
      while end < rest.endIndex,
        isIdentifier(String(rest[rest.startIndex...end]))
      { end = rest.index(after: end) }
      let name = String(rest[..<end])
      guard !name.isEmpty else { throw PayloadTemplateError(text: text) }
      if !plain.isEmpty { pieces.append(.text(plain)) }
      plain = ""
      pieces.append(.variable(name))
      rest = rest[end...]
    }
    if !plain.isEmpty || pieces.isEmpty { pieces.append(.text(plain)) }
    return pieces
  }

  /// Returns the variable that makes up a whole string, or `nil`.
  package static func wholeVariable(_ text: String) -> String? {
    if case .some(let pieces) = try? parse(text), pieces.count == 1,
      case .variable(let name) = pieces[0]
    {
      return name
    }
    return nil
  }
}

/// An error for a string with a `$` that no name follows.
package struct PayloadTemplateError: Error, Hashable, CustomStringConvertible {
  /// The string.
  package var text: String

  package var description: String {
    "has a '$' without a name in '\(text)'; write '$name' for a value of the state, or '$$' for a "
      + "dollar"
  }
}
