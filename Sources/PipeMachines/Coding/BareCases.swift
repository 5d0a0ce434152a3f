/// The cases of an enum that have no associated values: each travels as its label.
struct BareCases {
  private let metadata: TypeMetadata
  private let byteCount: Int
  /// The labels as JSON, by tag; `nil` for any other case.
  private var labels: [[UInt8]?] = []

  init<Value>(_ type: Value.Type) {
    metadata = TypeMetadata(type)
    byteCount = MemoryLayout<Value>.size
    let layout = EnumLayout.of(type)
    for (tag, description) in layout.cases.enumerated() {
      labels.append(layout.isBare[tag] ? JSONValue.string(description.name).bytes : nil)
    }
  }

  /// The label of a value's case, where that has one.
  @inline(__always)
  func label(of value: UnsafeRawPointer) -> [UInt8]? {
    // A type that is no enum has no cases.
    labels.isEmpty ? nil : labels[metadata.tag(of: value)]
  }

  /// Makes the value that a label stands for; returns `false` where it is none.
  func make(_ text: UnsafeRawBufferPointer, in value: UnsafeMutableRawPointer) -> Bool {
    guard text.first == UInt8(ascii: "\"") else { return false }
    // A handful: cheaper to compare than to hash.
    for tag in labels.indices {
      guard let label = labels[tag], label.count == text.count, label.elementsEqual(text) else {
        continue
      }
      value.initializeMemory(as: UInt8.self, repeating: 0, count: byteCount)
      metadata.inject(tag, into: value)
      return true
    }
    return false
  }
}
