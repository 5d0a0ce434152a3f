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
