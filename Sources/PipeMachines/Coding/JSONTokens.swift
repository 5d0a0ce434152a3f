/// The tokens of a JSON text, one for each key and each value, in the order of the text. The tokens
/// form a flat list instead of a tree.
package struct JSONTokens {
  package enum Kind: UInt8 {
    case object, array, string, escapedString, number, `true`, `false`, null
  }

  package struct Token {
    package var kind: Kind
    /// Whether the object has a key that is written with escapes.
    package var hasEscapedKey = false
    /// The offset at which the value begins; for a string, after the opening quote. Unit: bytes.
    package var startOffset: Int32
    /// The offset at which the value ends; for a string, before the closing quote. Unit: bytes.
    package var endOffset: Int32
    /// The index of the token that follows this token and all tokens inside it.
    package var nextIndex: Int32
    /// The number of members of an object, or of elements of an array.
    package var childCount: Int32

    /// The range of the value's text, including the quotes of a string.
    package var range: Range<Int> {
      let quotes = kind == .string || kind == .escapedString ? 1 : 0
      return Int(startOffset) - quotes..<Int(endOffset) + quotes
    }
  }

  /// The tokens. Each member of an object consists of a key, which is a string, and a value.
  package private(set) var list: [Token] = []
  private var offset = 0
  private var bytes = UnsafeRawBufferPointer(start: nil, count: 0)

  /// The maximum nesting depth of objects and arrays. Foundation supports a slightly greater depth,
  /// but traps on some truncated texts that are nested more than 512 levels deep.
  package static let maximumDepth = 500

  /// Returns the nesting depth of objects and arrays. The search stops at a depth of `limit + 1`.
  package static func depth(of text: UnsafeRawBufferPointer, upTo limit: Int) -> Int {
    var (depth, greatest) = (0, 0)
    var isInString = false
    var isEscaped = false
    for byte in text {
      if isInString {
        if isEscaped {
          isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
          isEscaped = true
        } else if byte == UInt8(ascii: "\"") {
          isInString = false
        }
        continue
      }
      switch byte {
      case UInt8(ascii: "\""): isInString = true
      case UInt8(ascii: "["), UInt8(ascii: "{"):
        depth += 1
        greatest = max(greatest, depth)
        if greatest > limit { return greatest }
      case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
      default: break
      }
    }
    return greatest
  }

  package init() {}

  /// Reads a text. Returns `false` if the text is not JSON, or if Foundation must decode it.
  package mutating func read(_ bytes: UnsafeRawBufferPointer) -> Bool {
    list.removeAll(keepingCapacity: true)
    offset = 0
    self.bytes = bytes
    defer { self.bytes = UnsafeRawBufferPointer(start: nil, count: 0) }
    guard bytes.count < Int32.max, readValue(depth: 0) else { return false }
    skipBlanks()
    return offset == bytes.count
  }

  /// Returns a string without escapes; `nil` for any other token, and for text that is not UTF-8.
  func string(at index: Int, in bytes: UnsafeRawBufferPointer) -> String? {
    let token = list[index]
    guard token.kind == .string else { return nil }
    return JSONText.string(
      of: UnsafeRawBufferPointer(rebasing: bytes[Int(token.startOffset)..<Int(token.endOffset)]))
  }

  /// Returns an integer that fits into an `Int64`; `nil` for any other token.
  func integer(at index: Int, in bytes: UnsafeRawBufferPointer) -> Int64? {
    let token = list[index]
    guard token.kind == .number else { return nil }
    var position = Int(token.startOffset)
    let end = Int(token.endOffset)
    let isNegative = bytes[position] == UInt8(ascii: "-")
    if isNegative { position += 1 }
    // Eighteen digits cannot overflow an `Int64`.
    guard end - position <= 18 else { return Self.longInteger(bytes[Int(token.startOffset)..<end]) }
    var number: Int64 = 0
    while position < end {
      let digit = bytes[position] &- 0x30
      guard digit < 10 else { return nil }
      number = number &* 10 &+ Int64(digit)
      position += 1
    }
    return isNegative ? -number : number
  }

  /// Returns an integer of more than 18 digits, such as the nanoseconds since 1970; `nil` for other
  /// text.
  private static func longInteger(_ text: Slice<UnsafeRawBufferPointer>) -> Int64? {
    text.count <= 20 ? Int64(String(decoding: text, as: UTF8.self)) : nil
  }

  private mutating func readValue(depth: Int) -> Bool {
    skipBlanks()
    guard offset < bytes.count else { return false }
    switch bytes[offset] {
    case UInt8(ascii: "{"): return readElements(.object, until: UInt8(ascii: "}"), depth: depth + 1)
    case UInt8(ascii: "["): return readElements(.array, until: UInt8(ascii: "]"), depth: depth + 1)
    case UInt8(ascii: "\""): return readString()
    case UInt8(ascii: "t"): return readWord("true", .true)
    case UInt8(ascii: "f"): return readWord("false", .false)
    case UInt8(ascii: "n"): return readWord("null", .null)
    default: return readNumber()
    }
  }

  private mutating func readElements(_ kind: Kind, until close: UInt8, depth: Int) -> Bool {
    guard depth <= Self.maximumDepth else { return false }
    let index = list.count
    add(kind, from: offset, to: offset)
    offset += 1
    skipBlanks()
    var count: Int32 = 0
    var hasEscapedKey = false
    if offset < bytes.count, bytes[offset] == close {
      offset += 1
    } else {
      while true {
        if kind == .object {
          skipBlanks()
          guard offset < bytes.count, bytes[offset] == UInt8(ascii: "\""), readString() else {
            return false
          }
          if list[list.count - 1].kind == .escapedString { hasEscapedKey = true }
          skipBlanks()
          guard offset < bytes.count, bytes[offset] == UInt8(ascii: ":") else { return false }
          offset += 1
        }
        guard readValue(depth: depth) else { return false }
        count += 1
        skipBlanks()
        guard offset < bytes.count else { return false }
        let byte = bytes[offset]
        offset += 1
        if byte == close { break }
        guard byte == UInt8(ascii: ",") else { return false }
      }
    }
    list[index].endOffset = Int32(offset)
    list[index].nextIndex = Int32(list.count)
    list[index].childCount = count
    list[index].hasEscapedKey = hasEscapedKey
    return true
  }

  private mutating func readString() -> Bool {
    let start = offset + 1
    var kind = Kind.string
    offset = start
    while true {
      offset = JSONText.plainPrefix(of: bytes, from: offset)
      guard offset < bytes.count else { return false }
      switch bytes[offset] {
      case UInt8(ascii: "\""):
        add(kind, from: start, to: offset)
        offset += 1
        return true
      case UInt8(ascii: "\\"):
        kind = .escapedString
        offset += 2
      default: return false
      }
    }
  }

  private mutating func readNumber() -> Bool {
    let start = offset
    if bytes[offset] == UInt8(ascii: "-") { offset += 1 }
    let digits = offset
    skipDigits()
    // Rejects a number without digits, or with a leading zero.
    guard offset > digits, bytes[digits] != UInt8(ascii: "0") || offset == digits + 1 else {
      return false
    }
    if offset < bytes.count, bytes[offset] == UInt8(ascii: ".") {
      offset += 1
      guard skipDigits() else { return false }
    }
    if offset < bytes.count, bytes[offset] | 0x20 == UInt8(ascii: "e") {
      offset += 1
      if offset < bytes.count, [UInt8(ascii: "+"), UInt8(ascii: "-")].contains(bytes[offset]) {
        offset += 1
      }
      guard skipDigits() else { return false }
    }
    add(.number, from: start, to: offset)
    return true
  }

  @discardableResult
  private mutating func skipDigits() -> Bool {
    let start = offset
    while offset < bytes.count, bytes[offset] &- 0x30 < 10 { offset += 1 }
    return offset > start
  }

  private mutating func readWord(_ word: StaticString, _ kind: Kind) -> Bool {
    let end = offset + word.utf8CodeUnitCount
    guard end <= bytes.count else { return false }
    for index in 0..<word.utf8CodeUnitCount where bytes[offset + index] != word.utf8Start[index] {
      return false
    }
    add(kind, from: offset, to: end)
    offset = end
    return true
  }

  private mutating func skipBlanks() {
    while offset < bytes.count {
      switch bytes[offset] {
      case 0x20, 0x0A, 0x0D, 0x09: offset += 1
      default: return
      }
    }
  }

  private mutating func add(_ kind: Kind, from start: Int, to end: Int) {
    list.append(
      Token(
        kind: kind, startOffset: Int32(start), endOffset: Int32(end),
        nextIndex: Int32(list.count + 1), childCount: 0))
  }
}

extension JSONTokens {
  /// Parses a text. Returns `nil` if the text is not JSON, or if it contains something that only
  /// Foundation can parse: escapes, fractions, large numbers, duplicate keys.
  static func value(of bytes: UnsafeRawBufferPointer) -> JSONValue? {
    var tokens = JSONTokens()
    return tokens.read(bytes) ? tokens.value(at: 0, in: bytes) : nil
  }

  /// Returns the value of a token; `nil` if Foundation must parse it.
  func value(at index: Int, in bytes: UnsafeRawBufferPointer) -> JSONValue? {
    let token = list[index]
    switch token.kind {
    case .null: return .null
    case .true: return .bool(true)
    case .false: return .bool(false)
    case .string: return string(at: index, in: bytes).map { .string($0) }
    case .number: return integer(at: index, in: bytes).map { .integer($0) }
    case .escapedString: return nil
    case .array:
      var values: [JSONValue] = []
      values.reserveCapacity(Int(token.childCount))
      var position = index + 1
      while position < token.nextIndex {
        guard let element = value(at: position, in: bytes) else { return nil }
        values.append(element)
        position = Int(list[position].nextIndex)
      }
      return .array(values)
    case .object:
      var members: [String: JSONValue] = [:]
      members.reserveCapacity(Int(token.childCount))
      var position = index + 1
      while position < token.nextIndex {
        guard let key = string(at: position, in: bytes),
          let member = value(at: position + 1, in: bytes),
          members.updateValue(member, forKey: key) == nil
        else { return nil }
        position = Int(list[position + 1].nextIndex)
      }
      return .object(members)
    }
  }
}
