import PipeSupport

/// Encodes and decodes the values of an enum in place, which means directly in the memory of the
/// values. The enum's `Codable` is not used, so the enum must be a ``SynthesizedCodable``. Supports
/// only cases whose associated values all have a type that ``InPlaceType`` lists.
final class InPlaceEnumCodec {
  // Contains no object references, because each event would pay for their reference counting.
  fileprivate struct Case {
    let tag: Int
    /// The beginning of the case's JSON, such as `{"moved":{`.
    let openingText: UnsafeRawBufferPointer
    let fields: UnsafeMutableBufferPointer<InPlaceField>
    var agreement = Agreement.unknown
  }

  /// The result of comparing a case's encoding in place with the type's `Codable`.
  enum Agreement {
    /// The case has not been compared with the type's `Codable` yet.
    case unknown
    case same
    case different
  }

  private let metadata: TypeMetadata
  private let byteCount: Int
  private let alignment: Int
  private let cases: UnsafeMutableBufferPointer<Case>
  /// The index in `cases` for each tag; `nil` for an unsupported case.
  private let indicesByTag: [Int?]

  /// Finds the cases of `type` that can be encoded and decoded in place; `nil` if there are none.
  init?<Value>(_ type: Value.Type) {
    guard !TypeReading.isReflective else { return nil }
    metadata = TypeMetadata(type)
    byteCount = MemoryLayout<Value>.size
    alignment = MemoryLayout<Value>.alignment
    let layout = EnumLayout.of(type)
    var cases: [Case] = []
    indicesByTag = layout.cases.indices.map { tag in
      guard let known = Case(tag, of: layout) else { return nil }
      cases.append(known)
      return cases.count - 1
    }
    self.cases = .allocate(capacity: cases.count)
    _ = self.cases.initialize(from: cases)
    if cases.isEmpty { return nil }
  }

  deinit {
    for known in cases { known.free() }
    cases.deallocate()
  }

  /// Returns the index in `cases` of a value's case; `nil` if the case is not supported.
  func caseIndex(of value: UnsafeRawPointer) -> Int? { indicesByTag[metadata.tag(of: value)] }

  /// Returns the index in `cases` of the case with a tag; `nil` if the case is not supported.
  func caseIndex(ofTag tag: Int) -> Int? { indicesByTag[tag] }

  /// Returns the index in `cases` of the case that the text encodes. Returns `nil` if the case is
  /// not supported, or if the text does not have the form that `append` writes.
  func caseIndex(of text: UnsafeRawBufferPointer) -> Int? {
    let text = InPlaceText(text)
    for index in cases.indices where text.begins(with: cases[index].openingText) { return index }
    return nil
  }

  /// Returns the tag of the case at index `caseIndex` in `cases`.
  func tag(of caseIndex: Int) -> Int { cases[caseIndex].tag }

  func agreement(of caseIndex: Int) -> Agreement { cases[caseIndex].agreement }

  func set(_ agreement: Agreement, of caseIndex: Int) { cases[caseIndex].agreement = agreement }

  // MARK: Encoding values

  /// Appends the JSON of the enum value that `value` points to. If the value cannot be encoded,
  /// returns `false` and appends nothing.
  /// - Parameter caseIndex: The index of the value's case in `cases`.
  func append(_ value: UnsafeRawPointer, of caseIndex: Int, to bytes: inout [UInt8]) -> Bool {
    withUnsafeTemporaryAllocation(byteCount: byteCount, alignment: alignment) { room in
      // Extracts the payload from a copy of the value's bits, because the extraction changes the
      // bits. The copy owns no references, so it must not be destroyed.
      let payload = room.baseAddress!
      payload.copyMemory(from: value, byteCount: byteCount)
      metadata.project(payload)
      let start = bytes.count
      bytes.append(contentsOf: cases[caseIndex].openingText)
      var isFirst = true
      for field in cases[caseIndex].fields where !field.isOmitted(in: payload) {
        if !isFirst { bytes.append(UInt8(ascii: ",")) }
        isFirst = false
        bytes.append(contentsOf: field.keyText)
        guard field.append(payload, to: &bytes) else {
          bytes.removeSubrange(start...)
          return false
        }
      }
      bytes.append(UInt8(ascii: "}"))
      bytes.append(UInt8(ascii: "}"))
      return true
    }
  }

  // MARK: Decoding values

  /// Decodes an enum value into the memory that `value` points to. If the text does not have the
  /// form that `append` writes, returns `false` and stores no value.
  /// - Parameter caseIndex: The index of the value's case in `cases`.
  func make(
    _ text: UnsafeRawBufferPointer, of caseIndex: Int, in value: UnsafeMutableRawPointer
  ) -> Bool {
    value.initializeMemory(as: UInt8.self, repeating: 0, count: byteCount)
    var text = InPlaceText(text)
    guard text.skip(cases[caseIndex].openingText) else { return false }
    var made = 0
    var isFirst = true
    for field in cases[caseIndex].fields {
      guard read(field, &text, &isFirst, into: value) else { break }
      made += 1
    }
    guard made == cases[caseIndex].fields.count, text.skip(UInt8(ascii: "}")),
      text.skip(UInt8(ascii: "}")), text.isAtEnd
    else {
      for field in cases[caseIndex].fields.prefix(made) { field.destroy(in: value) }
      return false
    }
    metadata.inject(cases[caseIndex].tag, into: value)
    return true
  }

  @inline(__always)
  private func read(
    _ field: InPlaceField, _ text: inout InPlaceText, _ isFirst: inout Bool,
    into payload: UnsafeMutableRawPointer
  ) -> Bool {
    var rest = text
    guard isFirst || rest.skip(UInt8(ascii: ",")), rest.skip(field.keyText) else {
      return field.readMissing(into: payload)
    }
    text = rest
    isFirst = false
    return field.read(&text, into: payload)
  }

  // MARK: Making sample values

  /// Stores a sample value of the case at index `caseIndex` in `cases`.
  /// - Parameter isMinimal: Whether the sample omits all optional values.
  func makeSample(
    of caseIndex: Int, _ numbers: inout SplitMix64, isMinimal: Bool,
    in value: UnsafeMutableRawPointer
  ) {
    value.initializeMemory(as: UInt8.self, repeating: 0, count: byteCount)
    for field in cases[caseIndex].fields where !(isMinimal && field.readMissing(into: value)) {
      field.makeSample(&numbers, in: value)
    }
    metadata.inject(cases[caseIndex].tag, into: value)
  }
}

extension InPlaceEnumCodec.Case {
  /// Prepares the encoding of a case; `nil` if the case has no associated values, or if an
  /// associated value is not supported.
  fileprivate init?(_ tag: Int, of layout: EnumLayout) {
    let description = layout.cases[tag]
    guard !layout.isBare(tag), layout.boxOffsets[tag] == 0, !description.fields.isEmpty else {
      return nil
    }
    let known = description.fields.indices.compactMap { index in
      InPlaceField(
        description.fields[index].name, layout.payloadTypes[tag][index],
        offset: layout.payloadOffsets[tag][index])
    }
    guard known.count == description.fields.count else {
      for field in known { field.keyText.deallocate() }
      return nil
    }
    self.tag = tag
    var text = [UInt8(ascii: "{")]
    JSONText.append(description.name, to: &text)
    openingText = (text + ":{".utf8).copied()
    fields = .allocate(capacity: known.count)
    _ = fields.initialize(from: known)
  }

  fileprivate func free() {
    openingText.deallocate()
    for field in fields { field.keyText.deallocate() }
    fields.deallocate()
  }
}

/// The bare cases of an enum: the cases without associated values. A bare case is encoded as its
/// label.
struct BareCases<Value> {
  /// The labels as JSON, by tag; `nil` for a case with associated values.
  private var labels: [[UInt8]?] = []

  init() {
    let layout = EnumLayout.of(Value.self)
    for (tag, description) in layout.cases.enumerated() {
      labels.append(layout.isBare(tag) ? JSONValue.string(description.name).bytes : nil)
    }
  }

  /// Returns the label of a value's case as JSON; `nil` if the case has associated values.
  @inline(__always)
  func label(of value: UnsafePointer<Value>) -> [UInt8]? {
    if TypeReading.isReflective { return reflectedLabel(of: value.pointee) }
    // A type that is not an enum has no cases.
    return labels.isEmpty ? nil : labels[EnumCases<Value>.tag(at: value)]
  }

  /// Reads the label of a case, and stores that case in the memory that `value` points to. Returns
  /// `false` if the text is not such a label.
  func make(_ text: UnsafeRawBufferPointer, in value: UnsafeMutablePointer<Value>) -> Bool {
    guard text.first == UInt8(ascii: "\"") else { return false }
    if TypeReading.isReflective {
      guard let bare = reflectedValue(of: text) else { return false }
      value.initialize(to: bare)
      return true
    }
    // There are few labels, so comparing is cheaper than hashing.
    for tag in labels.indices {
      guard let label = labels[tag], label.count == text.count, label.elementsEqual(text) else {
        continue
      }
      let bytes = UnsafeMutableRawPointer(value)
      bytes.initializeMemory(as: UInt8.self, repeating: 0, count: MemoryLayout<Value>.size)
      TypeMetadata(Value.self).inject(tag, into: bytes)
      return true
    }
    return false
  }

  private func reflectedLabel(of value: Value) -> [UInt8]? {
    guard let tag = EnumCases.tag(of: value) else { return nil }
    let layout = EnumLayout.of(Value.self)
    return layout.isBare(tag) ? JSONValue.string(layout.cases[tag].name).bytes : nil
  }

  private func reflectedValue(of label: UnsafeRawBufferPointer) -> Value? {
    guard TypeMetadata(Value.self).isEnum else { return nil }
    return (try? JSONValue(parsing: label))?.string
      .flatMap(EnumCases<Value>.bareValue(named:))
  }
}
