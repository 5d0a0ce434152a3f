import FoundationEssentials
import PipeRuntime

/// Reads bytes as JSON. Our reader must not accept text that Foundation's reader rejects, both must
/// read the same value, and written JSON must survive a round trip.
enum JSONFuzz {
  static func take(_ bytes: UnsafeRawBufferPointer) {
    guard let value = try? JSONValue(parsing: bytes) else { return }
    let text = value.bytes
    guard let again = try? JSONValue(parsing: text) else {
      fail("what was written cannot be read: \(value.text)")
    }
    check(again == value, "read otherwise when it was written: \(value.text)")
    guard let other = try? JSONDecoder().decode(JSONValue.self, from: Data(bytes)) else {
      fail("Foundation refuses what was read as \(value.text)")
    }
    check(other == value, "Foundation reads \(other.text), and we \(value.text)")
  }
}
