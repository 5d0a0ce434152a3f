/// A place in a text file; both counts start at 1, and 0 means not known.
public struct SourceMark: Codable, Hashable, Sendable {
  /// The line.
  public var line: Int
  /// The column, in characters.
  public var column: Int

  /// Makes a mark.
  public init(line: Int, column: Int) {
    self.line = line
    self.column = column
  }

  /// The mark of something that was not read from a file.
  public static let unknown = SourceMark(line: 0, column: 0)
}

extension SourceMark: Comparable {
  /// Whether one mark comes before another in the file.
  public static func < (left: SourceMark, right: SourceMark) -> Bool {
    (left.line, left.column) < (right.line, right.column)
  }
}
