import PipeMachines

extension JSONValue {
  /// The first whole number in a JSON text that is not held as one, since it is too large, as it is
  /// written there; `nil` where there is none.
  package static func wholeBeyondLimits(in text: some Sequence<UInt8>) -> String? {
    Array(text).withUnsafeBytes { bytes in
      var tokens = JSONTokens()
      guard tokens.read(bytes) else { return nil }
      return tokens.list.lazy.filter { $0.kind == .number }
        .map { String(decoding: bytes[Int($0.start)..<Int($0.end)], as: UTF8.self) }
        .first { !$0.contains { ".eE".contains($0) } && Int64($0) == nil }
    }
  }
}
