/// The body of `synchronize`, `prepare` and `deliver`: the composite's name, a line feed, the event
/// as JSON.
package struct TransactionBody {
  package var composite: String
  /// The event as JSON.
  package var event: [UInt8]

  private static let lineFeed = UInt8(ascii: "\n")

  package init(composite: String, event: [UInt8]) {
    self.composite = composite
    self.event = event
  }

  /// Reads a body; `nil` where it has no name or no event.
  package init?(_ bytes: some Collection<UInt8>) {
    guard let end = bytes.firstIndex(of: Self.lineFeed), end != bytes.startIndex else {
      return nil
    }
    composite = String(decoding: bytes[..<end], as: UTF8.self)
    event = Array(bytes[bytes.index(after: end)...])
    if event.isEmpty { return nil }
  }

  package var bytes: [UInt8] { Array(composite.utf8) + [Self.lineFeed] + event }

  /// The name of the event's case; `nil` where the JSON is not that of a case.
  package var eventName: String? {
    // Both forms of an event begin with the case's name: `"stop"` and `{"start":{"floor":3}}`.
    let quote = UInt8(ascii: "\"")
    guard let start = event.firstIndex(of: quote),
      event[..<start].allSatisfy({ [0x7B, 0x20, 0x09, 0x0A, 0x0D].contains($0) }),
      let end = event[(start + 1)...].firstIndex(of: quote)
    else { return nil }
    return String(decoding: event[(start + 1)..<end], as: UTF8.self)
  }
}
