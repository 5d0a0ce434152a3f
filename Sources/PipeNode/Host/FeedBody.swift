import PipeMachines

/// The body of a feed's frame, a JSON object, as it is written.
struct FeedBody {
  private var written: [UInt8] = []

  init(reserving byteCount: Int = 256) {
    written.reserveCapacity(byteCount)
    written.append(UInt8(ascii: "{"))
  }

  /// The whole of it, to which nothing is added any more.
  mutating func finish() -> [UInt8] {
    written.append(UInt8(ascii: "}"))
    return written
  }

  /// The whole of it.
  var bytes: [UInt8] { written + [UInt8(ascii: "}")] }

  mutating func add(_ key: StaticString, json: some Sequence<UInt8>) {
    begin(key)
    written.append(contentsOf: json)
  }

  mutating func add(_ key: StaticString, text: String) {
    add(key, json: JSONValue.string(text).bytes)
  }

  mutating func add(_ key: StaticString, _ number: some FixedWidthInteger) {
    add(key, json: String(number).utf8)
  }

  /// Adds the JSON of a value, where there is one.
  mutating func add(_ key: StaticString, encoding value: (some Encodable)?) {
    guard let value, let json = try? JSONValue(encoding: value) else { return }
    add(key, json: json.bytes)
  }

  /// Adds an object.
  mutating func add(_ key: StaticString, _ object: FeedBody) { add(key, json: object.bytes) }

  /// Adds an array of objects.
  mutating func add(_ key: StaticString, _ objects: [FeedBody]) {
    begin(key)
    written.append(UInt8(ascii: "["))
    for (index, object) in objects.enumerated() {
      if index > 0 { written.append(UInt8(ascii: ",")) }
      written.append(contentsOf: object.bytes)
    }
    written.append(UInt8(ascii: "]"))
  }

  /// Keys need no escapes.
  private mutating func begin(_ key: StaticString) {
    if written.count > 1 { written.append(UInt8(ascii: ",")) }
    written.append(UInt8(ascii: "\""))
    key.withUTF8Buffer { written.append(contentsOf: $0) }
    written.append(contentsOf: [UInt8(ascii: "\""), UInt8(ascii: ":")])
  }
}
