extension BinaryInteger {
  /// Returns this number with a noun: `1 node`, `2 nodes`.
  package func counted(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
