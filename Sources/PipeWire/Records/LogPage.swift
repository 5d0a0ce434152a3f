/// What a client wants to have of the logs: the body of a `logs` command.
///
/// Nothing is kept in between: the marks of the last page say where the next one begins.
package struct LogRequest: Codable, Hashable, Sendable {
  /// `nil` for all, those that come later included.
  package var nodes: [String]?
  /// Of a log without a mark: its last lines, so many; `nil` for all.
  package var lines: Int?
  /// Of a log without a mark: what was written since then. Unit: milliseconds since 1970.
  package var since: Int64?
  package var marks: [LogMark]

  package init(
    nodes: [String]? = nil, lines: Int? = nil, since: Int64? = nil, marks: [LogMark] = []
  ) {
    self.nodes = nodes
    self.lines = lines
    self.since = since
    self.marks = marks
  }
}

/// How far the log of a node was read.
package struct LogMark: Codable, Hashable, Sendable {
  package var node: String
  /// Names the file, wherever rotation has moved it.
  package var file: String
  /// Unit: bytes.
  package var offset: Int

  package init(node: String, file: String, offset: Int) {
    self.node = node
    self.file = file
    self.offset = offset
  }
}

/// Lines of logs, in the order of their times.
package struct LogPage: Codable, Hashable, Sendable {
  /// A line as it stands in the log: `2026-11-20T09:00:00.123Z out text`.
  package struct Line: Codable, Hashable, Sendable {
    package var node: String
    package var text: String

    package init(node: String, text: String) {
      self.node = node
      self.text = text
    }
  }

  package var lines: [Line]
  /// Of each log that there is.
  package var marks: [LogMark]
  /// Whether there is more than an answer may have.
  package var hasMore: Bool

  package init(lines: [Line], marks: [LogMark], hasMore: Bool) {
    self.lines = lines
    self.marks = marks
    self.hasMore = hasMore
  }
}

/// Some dead letters of a node, oldest first.
package struct LetterPage: Codable, Hashable, Sendable {
  package var letters: [DeadLetter]
  /// Whether there are more than an answer may have.
  package var hasMore: Bool

  package init(letters: [DeadLetter], hasMore: Bool) {
    self.letters = letters
    self.hasMore = hasMore
  }
}
