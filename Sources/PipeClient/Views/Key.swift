/// A key that was pressed at a terminal. For keys that move the cursor, the modifiers Shift, Ctrl
/// and Alt are not reported.
public enum Key: Hashable, Sendable {
  /// A key that writes a character.
  case character(Character)
  /// A letter with Ctrl, as a lower-case letter.
  case control(Character)
  /// A key with Alt.
  case alternate(Character)
  case enter
  case tab
  case backTab
  case backspace
  case delete
  case insert
  case escape
  case up
  case down
  case left
  case right
  case home
  case end
  case pageUp
  case pageDown
  /// A function key: 1 for F1, and so on.
  case function(Int)
}

/// Parses the bytes that a terminal sends into keys. The bytes may arrive in pieces of any size.
package struct KeyParser {
  private enum Mode: Equatable {
    case ground
    /// After ESC: the Escape key, or the beginning of a sequence.
    case escape
    /// After ESC [ : parameters, which end with a final byte.
    case sequence([UInt8])
    /// After ESC O.
    case single
    /// After ESC [ [, which the Linux console sends for F1 to F5.
    case console
    /// In a character of several bytes. The last `missing` bytes have not arrived.
    case character([UInt8], missing: Int, isAlternate: Bool)
  }

  private var mode = Mode.ground
  /// The maximum number of parameter bytes in a sequence.
  private static let maximumParameterByteCount = 32

  package init() {}

  /// Whether the last bytes are incomplete, so that their meaning depends on the next bytes.
  package var isWaiting: Bool { mode != .ground }

  /// Parses the next bytes, and returns the keys that are complete.
  package mutating func take(_ bytes: some Sequence<UInt8>) -> [Key] {
    var keys: [Key] = []
    for byte in bytes { take(byte, &keys) }
    return keys
  }

  /// Ends an incomplete input, because no byte has arrived for a while. A single ESC becomes the
  /// Escape key, and ESC with `[` or `O` becomes that key with Alt. Other incomplete input is
  /// dropped.
  package mutating func handlePause() -> [Key] {
    defer { mode = .ground }
    return switch mode {
    case .escape: [.escape]
    case .sequence(let bytes): bytes.isEmpty ? [.alternate("[")] : []
    case .single: [.alternate("O")]
    case .ground, .console, .character: []
    }
  }

  private mutating func take(_ byte: UInt8, _ keys: inout [Key]) {
    switch mode {
    case .ground: start(byte, isAlternate: false, &keys)
    case .escape:
      switch byte {
      case UInt8(ascii: "["): mode = .sequence([])
      case UInt8(ascii: "O"): mode = .single
      case 0x1B: keys.append(.escape)
      default: start(byte, isAlternate: true, &keys)
      }
    case .sequence(let bytes): takeSequence(byte, after: bytes, &keys)
    case .single:
      mode = .ground
      append(Self.key(final: byte, []), &keys)
    case .console:
      mode = .ground
      if (0x41...0x45).contains(byte) { keys.append(.function(Int(byte) - 0x40)) }
    case .character(let bytes, let missing, let isAlternate):
      guard byte & 0xC0 == 0x80 else {
        // The character is incomplete, and is dropped.
        mode = .ground
        return take(byte, &keys)
      }
      if missing > 1 {
        mode = .character(bytes + [byte], missing: missing - 1, isAlternate: isAlternate)
      } else {
        mode = .ground
        let text = String(validating: bytes + [byte], as: UTF8.self)
        if let character = text?.first {
          keys.append(isAlternate ? .alternate(character) : .character(character))
        }
      }
    }
  }

  private mutating func takeSequence(
    _ byte: UInt8, after bytes: [UInt8], _ keys: inout [Key]
  ) {
    switch byte {
    case 0x20...0x3F where bytes.count < Self.maximumParameterByteCount:
      mode = .sequence(bytes + [byte])
    case UInt8(ascii: "[") where bytes.isEmpty: mode = .console
    case 0x40...0x7E:
      mode = .ground
      append(Self.key(final: byte, bytes), &keys)
    case 0x20...0x3F: mode = .ground
    default:
      // The byte cannot be part of a sequence, so the current, incomplete sequence is dropped.
      mode = .ground
      take(byte, &keys)
    }
  }

  /// Handles a byte that begins a key or a sequence.
  private mutating func start(_ byte: UInt8, isAlternate: Bool, _ keys: inout [Key]) {
    mode = .ground
    switch byte {
    case 0x1B: mode = .escape
    case 0x0D, 0x0A: keys.append(.enter)
    case 0x09: keys.append(.tab)
    case 0x08, 0x7F: keys.append(.backspace)
    case 0x00: keys.append(.control(" "))
    case 0x01...0x1A: keys.append(.control(Character(Unicode.Scalar(byte + 0x60))))
    case 0x1C...0x1F: keys.append(.control(Character(Unicode.Scalar(byte + 0x40))))
    case 0x20...0x7E:
      let character = Character(Unicode.Scalar(byte))
      keys.append(isAlternate ? .alternate(character) : .character(character))
    case 0xC2...0xDF: mode = .character([byte], missing: 1, isAlternate: isAlternate)
    case 0xE0...0xEF: mode = .character([byte], missing: 2, isAlternate: isAlternate)
    case 0xF0...0xF4: mode = .character([byte], missing: 3, isAlternate: isAlternate)
    default: break  // Not a byte of UTF-8.
    }
  }

  private func append(_ key: Key?, _ keys: inout [Key]) { if let key { keys.append(key) } }

  /// Returns the key of a sequence; `nil` if ``Key`` has no case for this key.
  private static func key(final: UInt8, _ parameters: [UInt8]) -> Key? {
    switch final {
    case UInt8(ascii: "A"): return .up
    case UInt8(ascii: "B"): return .down
    case UInt8(ascii: "C"): return .right
    case UInt8(ascii: "D"): return .left
    case UInt8(ascii: "H"): return .home
    case UInt8(ascii: "F"): return .end
    case UInt8(ascii: "Z"): return .backTab
    case UInt8(ascii: "M") where parameters.isEmpty: return .enter
    case UInt8(ascii: "P")...UInt8(ascii: "S"): return .function(Int(final) - 0x4F)
    case UInt8(ascii: "~"): break
    default: return nil
    }
    let number = parameters.split(separator: UInt8(ascii: ";")).first.flatMap {
      Int(String(decoding: $0, as: UTF8.self))
    }
    return switch number {
    case 1, 7: .home
    case 2: .insert
    case 3: .delete
    case 4, 8: .end
    case 5: .pageUp
    case 6: .pageDown
    case .some(let number) where (11...15).contains(number): .function(number - 10)
    case .some(let number) where (17...21).contains(number): .function(number - 11)
    case 23, 24: .function((number ?? 0) - 12)
    default: nil
    }
  }
}
