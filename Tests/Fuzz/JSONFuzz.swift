import FoundationEssentials
import PipeRuntime

/// JSON: our reader takes nothing that Foundation's refuses, reads the same, and what it writes is read the
/// same.
enum JSONFuzz {
  static func take(_ bytes: UnsafeRawBufferPointer) {
    guard let value = try? JSONValue(parsing: bytes) else { return }
    let text = value.bytes
    guard let again = try? JSONValue(parsing: text) else {
      preconditionFailure("what was written cannot be read: \(value.text)")
    }
    precondition(again == value, "read otherwise when it was written: \(value.text)")
    guard let other = try? JSONDecoder().decode(JSONValue.self, from: Data(bytes)) else {
      preconditionFailure("Foundation refuses what was read as \(value.text)")
    }
    precondition(other == value, "Foundation reads \(other.text), and we \(value.text)")
  }
}
