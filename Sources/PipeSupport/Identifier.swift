/// Whether a text can be a Swift name, as far as this file must know.
package func isIdentifier(_ text: some StringProtocol) -> Bool {
  guard let first = text.unicodeScalars.first, isIdentifierHead(first) else { return false }
  return text.unicodeScalars.allSatisfy { isIdentifierHead($0) || ("0"..."9").contains($0) }
}

private func isIdentifierHead(_ scalar: Unicode.Scalar) -> Bool {
  scalar == "_" || scalar.properties.isAlphabetic || scalar.value > 0x2000
}

/// Whether a text can be the name of a variable in an environment.
package func isVariableName(_ text: String) -> Bool {
  isIdentifier(text) && text.utf8.allSatisfy { $0 < 0x80 }
}

/// Whether a name can be a file's: letters, digits, `_`, `-`, and dots after the first character.
package func isSafeName(_ name: String) -> Bool {
  !name.isEmpty && name.utf8.count <= 64 && name.utf8.first != UInt8(ascii: ".")
    && name.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "."),
        UInt8(ascii: "-"):
        true
      default: false
      }
    }
}
