/// What a state survives. Source: DESIGN.md 3.2.
public enum Durability: String, CaseIterable, Codable, Hashable, Sendable {
  /// Nothing; a loss at a crash is reported. Spelled `none` in a file.
  case volatile = "none"
  /// The end of any process, at any instant.
  case process
  /// A loss of power.
  case power

  /// What a node has whose file says nothing.
  public static let standard = Durability.process
}

extension Durability: Comparable {
  /// Whether it survives less.
  public static func < (left: Durability, right: Durability) -> Bool {
    allCases.firstIndex(of: left)! < allCases.firstIndex(of: right)!
  }
}
