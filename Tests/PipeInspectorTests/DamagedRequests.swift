import PipeRuntime

/// Randomly damaged HTTP requests, which are the same for the same seed.
struct DamagedRequests {
  private var generator: SplitMix64

  private static let sound = [
    "GET /a?b=c HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 5\r\n\r\n12345",
    "POST /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
      + "5\r\n12345\r\n0\r\n\r\n",
  ].map { Array($0.utf8) }

  /// Text with a meaning for a parser of requests, and unexpected text.
  private static let words = [
    "\r\n", "\r\n\r\n", "\n", "\r", " ", ":", "%", "%00", "?", "&", "=", "\0", "\u{FFFF}", "//",
    "..",
    "HTTP/1.1", "HTTP/9.9", "Content-Length: 18446744073709551616\r\n", "Content-Length: -1\r\n",
    "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: x\r\n", "FFFFFFFFFFFFFFFFF\r\n",
    "0\r\n\r\n",
    "Expect: 100-continue\r\n", "Upgrade: websocket\r\n", String(repeating: "a", count: 70),
  ].map { Array($0.utf8) }

  init(seed: UInt64) { generator = SplitMix64(seed: seed) }

  mutating func next() -> [UInt8] {
    var bytes = Self.sound.randomElement(using: &generator)!
    for _ in 0..<Int.random(in: 1...4, using: &generator) {
      let place = Int.random(in: 0...bytes.count, using: &generator)
      let end = Int.random(in: place...min(bytes.count, place + 12), using: &generator)
      switch Int.random(in: 0..<4, using: &generator) {
      case 0: bytes.removeSubrange(place..<end)
      case 1: bytes.insert(.random(in: 0...255, using: &generator), at: place)
      case 2: bytes.insert(contentsOf: bytes[place..<end], at: place)
      default: bytes.insert(contentsOf: Self.words.randomElement(using: &generator)!, at: place)
      }
    }
    return bytes
  }
}
