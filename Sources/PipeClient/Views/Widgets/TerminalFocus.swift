/// Which of a view's fields keys go to.
public struct TerminalFocus<Field: CaseIterable & Hashable & Sendable>: Hashable, Sendable {
  /// The field.
  public var field: Field

  /// Makes one.
  public init(_ field: Field) { self.field = field }

  /// Takes Tab, which goes to the next field, and back tab. Behind the last one is the first one.
  /// - Returns: Whether it is such a key.
  public mutating func press(_ key: Key) -> Bool {
    switch key {
    case .tab: move(by: 1)
    case .backTab: move(by: -1)
    default: return false
    }
    return true
  }

  private mutating func move(by step: Int) {
    let fields = Array(Field.allCases)
    guard let index = fields.firstIndex(of: field) else { return }
    field = fields[(index + step + fields.count) % fields.count]
  }
}
