import PipeRuntime

/// Random mutations of a corpus, for hosts without libFuzzer. Equal seeds yield equal mutations.
struct Mutations {
  private let inputs: [[UInt8]]
  private var generator: SplitMix64

  /// Fragments of requests, files and frames to insert.
  private static let fragments = [
    "GET ", "POST ", "HEAD ", "/api/", "/api/send", "/api/dead-letter", "/api/changes?after=",
    "node=",
    "\nhost: localhost", "\norigin: http://localhost", "\nauthorization: Bearer token",
    "\nsec-fetch-site: cross-site", "\ncontent-type: text/plain", "\n\n", "%00", "\u{0}",
    "\u{FFFF}",
    "18446744073709551616", "-1", "null", "{\"node\":", "[[[[", "\\ud800", "<img src=x onerror=a>",
    "..",
  ].map { Array($0.utf8) }

  init(of inputs: [[UInt8]], seed: UInt64) {
    self.inputs = inputs
    generator = SplitMix64(seed: seed)
  }

  mutating func next() -> [UInt8] {
    var input = inputs.randomElement(using: &generator) ?? []
    for _ in 0..<Int.random(in: 1...6, using: &generator) { change(&input) }
    return input
  }

  private mutating func change(_ input: inout [UInt8]) {
    let position = Int.random(in: 0...input.count, using: &generator)
    let end = Int.random(in: position...min(input.count, position + 16), using: &generator)
    switch Int.random(in: 0..<7, using: &generator) {
    case 0: input.replaceSubrange(position..<end, with: [])
    case 1: input.insert(.random(in: 0...255, using: &generator), at: position)
    case 2: input.insert(contentsOf: input[position..<end], at: position)
    case 3 where position < input.count:
      input[position] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
    case 4:
      let other = inputs.randomElement(using: &generator) ?? []
      let start = Int.random(in: 0...other.count, using: &generator)
      input.replaceSubrange(position..., with: other[start...])
    default:
      let word = Self.fragments.randomElement(using: &generator) ?? []
      input.replaceSubrange(position..<(end - position < 4 ? position : end), with: word)
    }
  }
}
