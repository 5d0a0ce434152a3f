/// A `tcp://HOST:PORT` to connect to.
package struct NetworkAddress: Hashable, Sendable {
  /// A name, or an address in numbers.
  package let host: String
  package let port: UInt16

  /// - Returns: `nil` where the text is none.
  package init?(_ text: some StringProtocol) {
    let prefix = "tcp://"
    guard text.hasPrefix(prefix), let colon = text.lastIndex(of: ":"),
      let port = UInt16(text[text.index(after: colon)...]), port > 0
    else { return nil }
    let start = text.index(text.startIndex, offsetBy: prefix.count)
    guard start < colon else { return nil }
    let host = text[start..<colon]
    // Of an interface, or with a source address: those are for who binds.
    guard host.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "-._".contains($0)) })
    else { return nil }
    self.host = String(host)
    self.port = port
  }
}
