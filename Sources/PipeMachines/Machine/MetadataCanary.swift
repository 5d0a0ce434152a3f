import PipeSupport

/// Checks whether PipeRuntime reads the memory of values and types correctly. The check uses types
/// that are declared for this purpose.
///
/// Swift guarantees the layout of its metadata on Apple's systems only. If a compiler uses another
/// layout, machines would match the wrong cases without an error: see ``TypeReading``.
package enum MetadataCanary {
  /// One comparison of the check: a value that PipeRuntime has read from a known type, and the
  /// expected value.
  package struct Fact: Hashable, Sendable {
    /// A description of the value.
    package let subject: String
    package let foundValue: String
    package let expectedValue: String

    package init(_ what: String, _ found: String, _ expected: String) {
      self.subject = what
      self.foundValue = found
      self.expectedValue = expected
    }
  }

  /// The compiler that built this program.
  package static var compiler: String {
    #if compiler(>=6.5)
      "Swift 6.5 or later"
    #elseif compiler(>=6.4)
      "Swift 6.4"
    #else
      "Swift 6.3"
    #endif
  }

  /// Returns the way in which enums can be read, and the first fact whose value differs from the
  /// expected value, if any.
  package static func reading(
    kinds: [Fact] = kindFacts(), cases: @autoclosure () -> [Fact] = caseFacts(),
    values: @autoclosure () -> [Fact] = valueFacts()
  ) -> (TypeReading, difference: Fact?) {
    // Compares the kinds, then the cases, then the values, because reading each group relies on
    // data that the previous comparison has checked.
    func difference(_ readings: [Fact]) -> Fact? {
      readings.first { $0.foundValue != $0.expectedValue }
    }
    if let found = difference(kinds) ?? difference(cases()) { return (.mirrorOnly, found) }
    if let found = difference(values()) { return (.mirror, found) }
    return (.layout, nil)
  }

  /// Returns the warning for a program whose compiler lays out types differently.
  package static func warning(_ difference: Fact) -> String {
    "this program was built with \(compiler), whose memory layout of types is unknown to "
      + "PipeRuntime (\(difference.subject): \(difference.foundValue) instead of \(difference.expectedValue)); "
      + "machines work, but each step is slower; update PipeRuntime, or build with Swift 6.3"
  }

  /// Reads facts about the kinds of types. Only reads memory at offsets that have been the same in
  /// every layout so far, and calls no function whose address is stored there.
  package static func kindFacts() -> [Fact] {
    let probe = TypeMetadata(Probe.self)
    let witnesses = probe.valueWitnessTable
    return [
      Fact(
        "kinds",
        line([
          kind((Int, Int).self), kind((() -> Void).self), kind(Int?.self), kind(Probe.self),
        ]), "301 302 202 201"),
      Fact(
        "sizes",
        line([
          "\(witnesses.load(fromByteOffset: 64, as: Int.self))",
          "\(witnesses.load(fromByteOffset: 72, as: Int.self))", "\(probe.alignmentMask + 1)",
        ]),
        line([
          "\(MemoryLayout<Probe>.size)", "\(MemoryLayout<Probe>.stride)",
          "\(MemoryLayout<Probe>.alignment)",
        ])),
      Fact("descriptors", FieldDescriptor.shape(of: probe), "18 12 6"),
    ]
  }

  /// Reads facts about the lists of cases.
  package static func caseFacts() -> [Fact] {
    let plain = EnumLayout(TypeMetadata(Probe.self), reading: .layout)
    let generic = EnumLayout(TypeMetadata(GenericProbe<Int8>.self), reading: .layout)
    return [
      Fact(
        "names", line(plain.cases.map(\.name)), "one pair box nest first second"),
      Fact(
        "fields",
        line(plain.cases.map { line($0.fields.map(\.name)) }, "|"),
        "_0|left right|_0|_0||"),
      Fact("types", types(of: plain), "Int8|String Int|Int64|Inner||"),
      Fact(
        "offsets", line(plain.payloadOffsets.map { line($0.map { "\($0)" }) }, "|"), "0|0 16|0|0||"),
      Fact(
        "bare", line(plain.cases.indices.map { plain.isBare($0) ? "1" : "0" }, ""), "000011"),
      Fact("a generic enum", types(of: generic), "Int8|Int8 Array<Int8>|"),
    ]
  }

  /// Reads facts about values.
  package static func valueFacts() -> [Fact] {
    let plain = EnumLayout(TypeMetadata(Probe.self), reading: .layout)
    return [
      Fact("tags", tags(of: Probe.samples), "0 1 2 3 4 5"),
      Fact("generic tags", tags(of: GenericProbe<Int8>.samples), "0 1 2"),
      Fact("optional tags", tags(of: [Int8?.some(1), nil]), "0 1"),
      Fact("a payload", payload(of: .one(7), plain, 0, Int8.self).map { "\($0)" }, "7"),
      Fact(
        "payloads",
        payload(of: .pair(left: text, right: 9), plain, 1, (String, Int).self)
          .map { "\($0.0) \($0.1)" }, "\(text) 9"),
      Fact("a boxed payload", payload(of: .box(-5), plain, 2, Int64.self).map { "\($0)" }, "-5"),
      Fact(
        "an enum in an enum", payload(of: .nest(.b(3)), plain, 3, Inner.self).map { $0.text },
        "b(3)"),
      Fact("a constructed case", made(tag: 5), "second"),
      Fact(
        "a constructed case with values", made(tag: 1, (text, 9)),
        "pair \(text) 9"),
    ]
  }

  /// Joins the words with the separator. The standard library's `joined` is slower: its first call
  /// searches all conformances of the process.
  private static func line(_ words: [String], _ separator: String = " ") -> String {
    var line = ""
    for (index, word) in words.enumerated() {
      if index > 0 { line += separator }
      line += word
    }
    return line
  }

  private static let text = "a text that is too long to be stored inline"

  private static func types(of layout: EnumLayout) -> String {
    line(layout.payloadTypes.map { line($0.map { TypeName.unqualified($0) }) }, "|")
  }

  private static func tags<Value>(of values: [Value]) -> String {
    line(
      values.map { value in
        withUnsafePointer(to: value) { "\(TypeMetadata(Value.self).tag(of: $0))" }
      })
  }

  /// Returns the payload of a value; `nil` if the type's cases were not read correctly.
  private static func payload<Payload>(
    of value: Probe, _ layout: EnumLayout, _ tag: Int, _ type: Payload.Type
  ) -> Payload? {
    guard layout.cases.count == 6, layout.matches(tag: tag, [type]) else { return nil }
    return withUnsafePointer(to: value) {
      guard TypeMetadata(Probe.self).tag(of: $0) == tag else { return nil }
      return EnumLayout.withStoredPayload(of: $0, boxOffset: layout.boxOffsets[tag], type) { $0 }
    }
  }

  private static func made(tag: Int) -> String { made(tag: tag, ()) }

  private static func made<Payload>(tag: Int, _ payload: Payload) -> String {
    withUnsafeTemporaryAllocation(of: Probe.self, capacity: 1) { storage in
      let bytes = UnsafeMutableRawPointer(storage.baseAddress!)
      bytes.initializeMemory(as: UInt8.self, repeating: 0, count: MemoryLayout<Probe>.size)
      bytes.initializeMemory(as: Payload.self, to: payload)
      TypeMetadata(Probe.self).inject(tag, into: bytes)
      // If the tag is not the expected tag, the value may be invalid. So the value is not moved out
      // of the temporary memory.
      guard TypeMetadata(Probe.self).tag(of: bytes) == tag else { return "another" }
      return storage.baseAddress!.move().text
    }
  }

  private static func kind(_ type: Any.Type) -> String {
    String(TypeMetadata(type).storedKind, radix: 16)
  }
}

extension MetadataCanary.Fact {
  fileprivate init(_ what: String, _ found: String?, _ expected: String) {
    self.init(what, found ?? "nothing", expected)
  }
}

// `Inner` has its own `text`. The default description would search the type for its cases, which
// would measurably slow down the start of each process.
private enum Inner {
  case a, b(Int)

  var text: String {
    switch self {
    case .a: "a"
    case .b(let number): "b(\(number))"
    }
  }
}

/// An enum with cases of every kind: with and without a payload, boxed and labelled. The order of
/// declaration differs from the order of the tags.
private enum Probe {
  case first
  case one(Int8)
  case pair(left: String, right: Int)
  indirect case box(Int64)
  case second
  case nest(Inner)

  static var samples: [Probe] {
    [.one(1), .pair(left: "", right: 0), .box(1), .nest(.a), .first, .second]
  }

  /// The name of a bare case, or the name and the values of the case `pair`.
  var text: String {
    switch self {
    case .first: "first"
    case .second: "second"
    case .pair(let left, let right): "pair \(left) \(right)"
    case .one, .box, .nest: "another payload"
    }
  }
}

private enum GenericProbe<Element> {
  case none
  case one(Element)
  case some(Element, [Element])

  static var samples: [GenericProbe<Int8>] { [.one(1), .some(1, []), .none] }
}
