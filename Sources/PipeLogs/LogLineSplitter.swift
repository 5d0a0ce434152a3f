/// Cuts a stream of bytes into lines of text, whatever the bytes are.
///
/// Invalid UTF-8 becomes replacement characters; a line over the limit is cut into several, between
/// characters.
package struct LogLineSplitter: Sendable {
  /// The longest line. Unit: bytes. Default: 65536.
  package let limit: Int
  private var partial: [UInt8] = []

  package init(limit: Int = 65536) { self.limit = max(limit, 4) }

  /// Takes the next bytes and returns the lines that they complete, without their ends.
  package mutating func append(_ bytes: some Collection<UInt8>) -> [String] {
    var lines: [String] = []
    var rest = bytes[...]
    while let end = rest.firstIndex(of: 0x0A) {
      partial.append(contentsOf: rest[..<end])
      rest = rest[rest.index(after: end)...]
      cutPartial(into: &lines)
      if partial.last == 0x0D { partial.removeLast() }
      lines.append(String(decoding: partial, as: UTF8.self))
      partial.removeAll(keepingCapacity: true)
    }
    partial.append(contentsOf: rest)
    cutPartial(into: &lines)
    return lines
  }

  /// The last line, where the stream ended without a line end.
  package mutating func finish() -> String? {
    guard !partial.isEmpty else { return nil }
    defer { partial.removeAll() }
    return String(decoding: partial, as: UTF8.self)
  }

  private mutating func cutPartial(into lines: inout [String]) {
    var start = 0
    while partial.count - start > limit {
      var end = start + limit
      // Back to the first byte of a character, which is at most three away in valid text.
      for step in 0..<4 where partial[end - step] & 0xC0 != 0x80 {
        end -= step
        break
      }
      lines.append(String(decoding: partial[start..<end], as: UTF8.self))
      start = end
    }
    if start > 0 { partial.removeFirst(start) }
  }
}
