import FoundationEssentials
import PipeMachines
import PipeSupport
import Testing

/// Cases with every plain type of value, which are encoded and decoded in place.
private enum Plain: MachineEvent, SynthesizedCodable, Equatable {
  case bare
  case one(Int)
  case signed(Int8, small: Int16, Int32, large: Int64)
  case unsigned(UInt, UInt8, UInt16, UInt32, UInt64)
  case real(x: Double, y: Float, isSet: Bool)
  case text(String, other: String)
  case optional(number: Int?, text: String?, flag: Bool?, real: Double?)
  case last(text: String?)
  indirect case boxed(Int)
  case nested(Inner, Int)

  struct Inner: Codable, Equatable, Sendable { var value: Int? }

  /// Returns a random value.
  static func random(_ numbers: inout SplitMix64) -> Plain {
    switch numbers.next() % 10 {
    case 0: .bare
    case 1: .one(numbers.any())
    case 2: .signed(numbers.any(), small: numbers.any(), numbers.any(), large: numbers.any())
    case 3:
      .unsigned(numbers.any(), numbers.any(), numbers.any(), numbers.any(), numbers.any())
    case 4: .real(x: numbers.real(), y: Float(numbers.real()), isSet: numbers.next() % 2 == 0)
    case 5: .text(numbers.text(), other: numbers.text())
    case 6:
      .optional(
        number: numbers.maybe { $0.any() }, text: numbers.maybe { $0.text() },
        flag: numbers.maybe { $0.next() % 2 == 0 }, real: numbers.maybe { $0.real() })
    case 7: .last(text: numbers.maybe { $0.text() })
    case 8: .boxed(numbers.any())
    default: .nested(.init(value: numbers.maybe { $0.any() }), numbers.any())
    }
  }
}

extension SplitMix64 {
  /// Returns a number with few bits, a number with many bits, or a limit of the type.
  fileprivate mutating func any<Value: FixedWidthInteger>() -> Value {
    switch next() % 8 {
    case 0: .min
    case 1: .max
    default: Value(truncatingIfNeeded: next() >> (next() % 64))
    }
  }

  fileprivate mutating func real() -> Double {
    switch next() % 5 {
    case 0: Double(Int32(truncatingIfNeeded: next()))
    case 1: -0.0
    case 2: 1e300 * Double(next() % 1000)
    default: Double(next() % 1_000_000) / 1024 - 300
    }
  }

  fileprivate mutating func text() -> String {
    let parts = [
      "a", "\"", "\\", "\n", "\u{1}", "é", "🚪", "/", "{\"", "}", ",", " ", "\u{7F}", "\u{2028}",
    ]
    return (0..<next() % 30).map { _ in parts[Int(next() % UInt64(parts.count))] }.joined()
  }

  fileprivate mutating func maybe<Value>(_ make: (inout Self) -> Value) -> Value? {
    next() % 3 == 0 ? nil : make(&self)
  }
}

@Suite("Types that conform to SynthesizedCodable")
struct SynthesizedCodableTests {
  private static func codecs() -> (EventCodec<Plain>, EventCodec<Plain>) {
    (EventCodec(isSynthesized: Plain._isSynthesizedCodable), EventCodec())
  }

  @Test("A type conforms to SynthesizedCodable by declaration alone, without a warning")
  func statement() throws {
    #expect(Plain._isSynthesizedCodable)
    #expect(!Unmarked._isSynthesizedCodable)
    var numbers = SplitMix64(seed: 1)
    let seen = try warnings { () throws in
      let codec = EventCodec<Plain>(isSynthesized: true)
      for _ in 0..<100 { _ = try? codec.encode(.random(&numbers)) }
    }
    #expect(seen.isEmpty)
  }

  @Test(
    "The in-place codec encodes and decodes random values like Codable",
    arguments: 0..<20)
  func random(seed: UInt64) throws {
    let (inPlace, byCodable) = Self.codecs()
    var numbers = SplitMix64(seed: seed)
    for _ in 0..<100 {
      let value = Plain.random(&numbers)
      // Foundation refuses numbers that are not finite, and so must the codec.
      guard let bytes = try? byCodable.encode(value) else {
        #expect(throws: (any Error).self) { try inPlace.encode(value) }
        continue
      }
      #expect(try inPlace.encode(value) == bytes)
      #expect(try inPlace.decode(bytes) == value)
      #expect(try byCodable.decode(bytes) == value)
    }
  }

  @Test("The in-place codec treats damaged text like Codable", arguments: 0..<10)
  func damaged(seed: UInt64) throws {
    let (inPlace, byCodable) = Self.codecs()
    var numbers = SplitMix64(seed: seed)
    let marks = Array("{}[]\",:0-.eE9ntf \\a".utf8) + [0x00, 0x1F, 0xC3, 0xFF]
    for _ in 0..<60 {
      let value = Plain.random(&numbers)
      guard var bytes = try? byCodable.encode(value) else { continue }
      let place = Int(numbers.next() % UInt64(bytes.count))
      let mark = marks[Int(numbers.next() % UInt64(marks.count))]
      switch numbers.next() % 4 {
      case 0: bytes[place] = mark
      case 1: bytes.insert(mark, at: place)
      case 2: bytes.remove(at: place)
      default: bytes.removeSubrange(place...)
      }
      Self.expectSame(bytes, inPlace, byCodable)
    }
  }

  @Test(
    "The in-place codec treats text in another JSON style like Codable",
    arguments: [
      #"{"one":{"_0":7}}"#, #" {"one":{"_0":7}}"#, #"{"one":{"_0":7}} "#, #"{"one":{"_0": 7}}"#,
      #"{"one":{"_0":007}}"#, #"{"one":{"_0":-0}}"#, #"{"one":{"_0":-}}"#, #"{"one":{"_0":}}"#,
      #"{"one":{"_0":7.0}}"#, #"{"one":{"_0":7e0}}"#, #"{"one":{"_0":9223372036854775808}}"#,
      #"{"one":{"_0":7},"bare":{}}"#, #"{"one":{"_0":7,"_1":8}}"#, #"{"one":{"_1":8,"_0":7}}"#,
      #"{"one":{"_0":1,"_0":2}}"#, #"{"one":{"_0":"7"}}"#, #"{"one":{}}"#, #"{"one":{"_0":null}}"#,
      #"{"one":{"_0":7}}}"#, #"{"one":{"_0":7}"#, #"{"one":{"_0":7,}}"#, #"{"bare":{}}"#,
      #""bare""#,
      #""one""#, #"{"on":{"_0":7}}"#, #"{"ones":{"_0":7}}"#,
      #"{"unsigned":{"_0":1,"_1":256,"_2":1,"_3":1,"_4":1}}"#,
      #"{"unsigned":{"_0":-1,"_1":1,"_2":1,"_3":1,"_4":1}}"#,
      #"{"real":{"x":1.5,"y":1e2,"isSet":true}}"#, #"{"real":{"x":01.5,"y":1,"isSet":true}}"#,
      #"{"real":{"x":1e999,"y":1,"isSet":true}}"#, #"{"real":{"x":1,"y":1e99,"isSet":true}}"#,
      #"{"real":{"x":1,"y":2,"isSet":truer}}"#, #"{"real":{"x":1,"y":2,"isSet":1}}"#,
      #"{"real":{"isSet":false,"y":2,"x":1}}"#, #"{"text":{"_0":"a\u0062","other":""}}"#,
      #"{"optional":{}}"#, #"{"optional":{"number":null,"flag":null}}"#,
      #"{"optional":{"flag":true,"number":1}}"#, #"{"optional":{"number":1,"real":2.5}}"#,
      #"{"optional":{"number":1,"number":2}}"#, #"{"optional":{"other":1}}"#, #"{"optional":{,}}"#,
      #"{"optional":{"number":1,}}"#, #"{"last":{"text":"a","text":"b"}}"#, "", "{", "{}", "[]",
    ])
  func otherwise(text: String) {
    let (inPlace, byCodable) = Self.codecs()
    Self.expectSame(Array(text.utf8), inPlace, byCodable)
    let expected = try? JSONDecoder().decode(Plain.self, from: Data(text.utf8))
    if !text.hasPrefix("\"") { #expect((try? inPlace.decode(Array(text.utf8))) == expected) }
  }

  private static func expectSame(
    _ bytes: [UInt8], _ left: EventCodec<Plain>, _ right: EventCodec<Plain>
  ) {
    func outcome(_ codec: EventCodec<Plain>) -> String {
      do { return "\(try codec.decode(bytes))" } catch { return "error: \(error)" }
    }
    let text = String(decoding: bytes, as: UTF8.self)
    #expect(outcome(left) == outcome(right), "\(text)")
  }

  @Test("Decoded values own and release their contents")
  func lifetimes() throws {
    let codec = EventCodec<Plain>(isSynthesized: true)
    let text = String(repeating: "longer than what lies in the value itself ", count: 3)
    let bytes = try codec.encode(.text(text, other: text + "!"))
    let values = try (0..<100).map { _ in try codec.decode(bytes) }
    // The first value is decoded, and the second one is invalid.
    let half = Array(#"{"text":{"_0":"\#(text)","other":1}}"#.utf8)
    for _ in 0..<100 { #expect(throws: UndecodableValue.self) { try codec.decode(half) } }
    #expect(values.allSatisfy { $0 == .text(text, other: text + "!") })
  }
}

/// Returns the warnings.
private func warnings(_ body: () throws -> Void) throws -> [String] {
  let seen = Locked<[String]>([])
  try Warnings.$tell.withValue({ text in seen.withLock { $0.append(text) } }) { try body() }
  return seen.withLock { $0 }
}

// MARK: Hand-written conformances

/// A type without the conformance and with its own decoding.
private enum Unmarked: MachineEvent, Equatable {
  case clamped(Int)

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    let nested = try container.nestedContainer(keyedBy: ClampedCodingKeys.self, forKey: .clamped)
    self = .clamped(min(try nested.decode(Int.self, forKey: ._0), 10))
  }
}

/// A type that claims the conformance although it has custom decoding.
private enum Reading: MachineEvent, SynthesizedCodable, Equatable {
  case clamped(Int)
  case plain(Int)

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    if container.contains(.plain) {
      let nested = try container.nestedContainer(keyedBy: PlainCodingKeys.self, forKey: .plain)
      self = .plain(try nested.decode(Int.self, forKey: ._0))
    } else {
      let nested = try container.nestedContainer(keyedBy: ClampedCodingKeys.self, forKey: .clamped)
      self = .clamped(min(try nested.decode(Int.self, forKey: ._0), 10))
    }
  }
}

/// A type that claims the conformance although it has custom encoding.
private enum Writing: MachineEvent, SynthesizedCodable, Equatable {
  case rounded(Double)

  func encode(to encoder: any Encoder) throws {
    guard case .rounded(let value) = self else { return }
    var container = encoder.container(keyedBy: CodingKeys.self)
    var nested = container.nestedContainer(keyedBy: RoundedCodingKeys.self, forKey: .rounded)
    try nested.encode(value.rounded(), forKey: ._0)
  }
}

/// A type that claims the conformance although it has custom coding keys.
private enum Renamed: MachineEvent, SynthesizedCodable, Equatable {
  case moved(x: Int)
  case set(y: Int)

  enum CodingKeys: String, CodingKey {
    case moved = "m"
    case set
  }

  enum SetCodingKeys: String, CodingKey { case y = "why" }
}

/// A type where a missing value has a default.
private enum Defaulting: MachineEvent, SynthesizedCodable, Equatable {
  case counted(Int? = 5)
}

@Suite("A hand-written Codable conformance")
struct HandWrittenCodableTests {
  @Test("A type without SynthesizedCodable uses its own decoding")
  func unmarked() throws {
    let codec = EventCodec<Unmarked>(isSynthesized: Unmarked._isSynthesizedCodable)
    #expect(try codec.decode(Array(#"{"clamped":{"_0":99}}"#.utf8)) == .clamped(10))
  }

  @Test(
    "A type with custom decoding of any case is detected and uses its own decoding",
    .valuesInPlace)
  func reading() throws {
    let codec = EventCodec<Reading>(isSynthesized: Reading._isSynthesizedCodable)
    let warnings = try warnings { () throws in
      for _ in 0..<2 {
        #expect(try codec.decode(Array(#"{"clamped":{"_0":99}}"#.utf8)) == .clamped(10))
        #expect(try codec.decode(Array(#"{"plain":{"_0":99}}"#.utf8)) == .plain(99))
      }
    }
    #expect(warnings.count == 1)
    #expect(warnings.first?.contains("in case 'clamped'") == true)
    #expect(warnings.first?.contains("remove SynthesizedCodable from the type") == true)
  }

  @Test("A type with custom encoding is detected and uses its own encoding", .valuesInPlace)
  func writing() throws {
    let codec = EventCodec<Writing>(isSynthesized: Writing._isSynthesizedCodable)
    let warnings = try warnings { () throws in
      #expect(try codec.encode(.rounded(1.25)) == Array(#"{"rounded":{"_0":1}}"#.utf8))
    }
    #expect(warnings.count == 1)
  }

  @Test("A type with custom coding keys is detected and uses its own coding", .valuesInPlace)
  func renamed() throws {
    let codec = EventCodec<Renamed>(isSynthesized: Renamed._isSynthesizedCodable)
    let warnings = try warnings { () throws in
      #expect(try codec.encode(.moved(x: 1)) == Array(#"{"m":{"x":1}}"#.utf8))
      #expect(try codec.encode(.set(y: 1)) == Array(#"{"set":{"why":1}}"#.utf8))
      #expect(try codec.decode(Array(#"{"m":{"x":1}}"#.utf8)) == .moved(x: 1))
      #expect(throws: UndecodableValue.self) {
        try codec.decode(Array(#"{"moved":{"x":1}}"#.utf8))
      }
    }
    #expect(warnings.count == 2)
  }

  @Test("A missing value gets the same default from the codec as from the compiler's decoding")
  func defaulting() throws {
    let inPlace = EventCodec<Defaulting>(isSynthesized: Defaulting._isSynthesizedCodable)
    let text = Array(#"{"counted":{}}"#.utf8)
    _ = try warnings { () throws in
      #expect(try inPlace.decode(text) == EventCodec<Defaulting>().decode(text))
    }
  }
}

// MARK: Containers that are used at the same time

/// A type that uses two containers with the same key type in turn.
private enum Interleaved: MachineEvent, Equatable {
  case pair(left: Int, right: Int)

  enum Keys: String, CodingKey { case left, right, value }

  init(from decoder: any Decoder) throws {
    let outer = try decoder.container(keyedBy: Keys.self)
    let left = try outer.nestedContainer(keyedBy: Keys.self, forKey: .left)
    let right = try outer.nestedContainer(keyedBy: Keys.self, forKey: .right)
    self = .pair(
      left: try left.decode(Int.self, forKey: .value),
      right: try right.decode(Int.self, forKey: .value))
    guard outer.contains(.left) else { throw CancellationError() }
  }

  init(left: Int, right: Int) { self = .pair(left: left, right: right) }

  func encode(to encoder: any Encoder) throws {
    guard case .pair(let left, let right) = self else { return }
    var outer = encoder.container(keyedBy: Keys.self)
    var inner = outer.nestedContainer(keyedBy: Keys.self, forKey: .left)
    try inner.encode(left, forKey: .value)
    inner = outer.nestedContainer(keyedBy: Keys.self, forKey: .right)
    try inner.encode(right, forKey: .value)
  }
}

@Suite("Cached coding containers")
struct KeptContainerTests {
  @Test("A cached container that is in use is not used a second time")
  func held() throws {
    let codec = EventCodec<Interleaved>()
    for number in 0..<5 {
      let value = Interleaved(left: number, right: number + 1)
      let text = #"{"left":{"value":\#(number)},"right":{"value":\#(number + 1)}}"#
      #expect(try codec.encode(value) == Array(text.utf8))
      #expect(try codec.decode(Array(text.utf8)) == value)
    }
  }

  @Test(
    "A cached container encodes and decodes each value correctly, whatever it held before",
    arguments: 0..<5)
  func reused(seed: UInt64) throws {
    let codec = EventCodec<Plain>()
    var numbers = SplitMix64(seed: seed)
    for _ in 0..<100 {
      let value = Plain.random(&numbers)
      guard let bytes = try? EventCodec<Plain>().encode(value) else { continue }
      #expect(try codec.encode(value) == bytes)
      // A decoding that fails halfway must not affect the next one.
      _ = try? codec.decode(Array(bytes.dropLast(3)))
      #expect(try codec.decode(bytes) == value)
    }
  }
}

extension Trait where Self == ConditionTrait {
  /// Runs the test only where values are encoded and decoded in place.
  static var valuesInPlace: Self {
    .enabled(
      if: TypeReading.current == .layout,
      "values are read by reflection here, and none of them is written in place")
  }
}
