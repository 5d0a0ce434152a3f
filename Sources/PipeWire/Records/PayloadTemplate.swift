import PipeMachines
import PipeSupport

/// A template for the event that a pipe's rule sends. Values of the entered state replace the
/// template's variables.
///
/// A string `$name` is replaced by the state's value with this name, which keeps its JSON type. A
/// `$name` inside a longer string is replaced by text. `$$` is a dollar sign. If the state has no
/// such value, because it is `nil` in Swift, the result is `null`.
package struct PayloadTemplate: Hashable, Sendable {
  private enum Piece: Hashable {
    case bytes([UInt8])
    /// A string that consists only of the variable with this index in `variableKeys`. The
    /// variable's value keeps its JSON type.
    case whole(Int)
    /// The variable with this index in `variableKeys`, inside a longer string.
    case embedded(Int)
  }

  private var pieces: [Piece] = []
  private var variableKeys: [[UInt8]] = []
  /// The rendered event if the template has no variables; otherwise `nil`.
  package private(set) var constant: [UInt8]?

  /// Parses a template: the name of an event, or `{name: {field: value}}`.
  package init(_ json: JSONValue) throws(PayloadTemplateError) {
    if case .string(let label) = json {
      append(JSONValue.string(label).bytes)
    } else {
      try append(json)
    }
    if variableKeys.isEmpty {
      guard case .bytes(let bytes)? = pieces.first else { return }
      constant = bytes
    }
  }

  /// The names of the template's variables, which are fields of the state.
  package var variables: [String] { variableKeys.map { String(decoding: $0, as: UTF8.self) } }

  /// The name of the variable that contains the key of the instance, in rules of a keyed node.
  package static let keyVariable = "key"

  /// Returns the event as JSON, with the variables replaced by values of the state.
  /// - Parameter key: The key of the instance that entered the state; `nil` if the node has one
  ///   machine.
  package func render(state: [UInt8], key: String? = nil) -> [UInt8] {
    if let constant { return constant }
    var output: [UInt8] = []
    let ranges = ranges(in: state)
    for piece in pieces {
      switch piece {
      case .bytes(let bytes): output.append(contentsOf: bytes)
      case .whole(let index) where isKey(index) && key != nil:
        output.append(contentsOf: JSONValue.string(key ?? "").bytes)
      case .embedded(let index) where isKey(index) && key != nil:
        output.append(contentsOf: JSONValue.string(key ?? "").bytes.dropFirst().dropLast())
      case .whole(let index):
        if let range = ranges[index] {
          output.append(contentsOf: state[range])
        } else {
          output.append(contentsOf: "null".utf8)
        }
      case .embedded(let index):
        if let range = ranges[index] { Self.embed(state[range], into: &output) }
      }
    }
    return output
  }

  private func isKey(_ index: Int) -> Bool {
    variableKeys[index].elementsEqual(Self.keyVariable.utf8)
  }

  /// Returns the range of each variable's value in a state `{"case":{"name":value,…}}`; `nil` for a
  /// missing value.
  private func ranges(in state: [UInt8]) -> [Range<Int>?] {
    var ranges: [Range<Int>?] = Array(repeating: nil, count: variableKeys.count)
    var tokens = JSONTokens()
    guard state.withUnsafeBytes({ tokens.read($0) }), tokens.list.count > 2,
      tokens.list[0].kind == .object, tokens.list[2].kind == .object
    else { return ranges }
    var position = 3
    while position < tokens.list[2].nextIndex {
      let key = state[Int(tokens.list[position].startOffset)..<Int(tokens.list[position].endOffset)]
      if let index = variableKeys.firstIndex(where: { $0[...] == key }) {
        ranges[index] = tokens.list[position + 1].range
      }
      position = Int(tokens.list[position + 1].nextIndex)
    }
    return ranges
  }

  // MARK: Parsing the template

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
    if let index = variableKeys.firstIndex(of: key) { return index }
    variableKeys.append(key)
    return variableKeys.count - 1
  }

  /// Appends a value as text to an unfinished JSON string. `value` is the value's JSON.
  private static func embed(_ value: ArraySlice<UInt8>, into out: inout [UInt8]) {
    if value.first == UInt8(ascii: "\"") {
      out.append(contentsOf: value.dropFirst().dropLast())
    } else {
      let text = String(decoding: value, as: UTF8.self)
      out.append(contentsOf: JSONValue.string(text).bytes.dropFirst().dropLast())
    }
  }
}

/// The `$` syntax of payload templates: `$name` is replaced by a value, `$$` is a dollar sign.
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

  /// Returns the variable's name if the whole string is one variable; otherwise `nil`.
  package static func wholeVariable(_ text: String) -> String? {
    if case .some(let pieces) = try? parse(text), pieces.count == 1,
      case .variable(let name) = pieces[0]
    {
      return name
    }
    return nil
  }
}

/// An error in a template: a `$` without a name after it.
package struct PayloadTemplateError: Error, Hashable, CustomStringConvertible {
  /// The string that contains the error.
  package var text: String

  package var description: String {
    "has a '$' without a name in '\(text)'; write '$name' for a value of the state, or '$$' for a "
      + "dollar"
  }
}
