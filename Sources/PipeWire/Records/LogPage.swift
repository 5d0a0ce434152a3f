/// A question for a page of logs: the body of a `logs` command.
///
/// Nothing is kept in between: the marks of the last page say where the next one begins.
package struct LogRequest: Codable, Hashable, Sendable {
  /// `nil` for all, including nodes that appear later.
  package var nodes: [String]?
  /// Of a log without a mark: its last lines, so many; `nil` for all.
  package var lines: Int?
  /// Of a log without a mark: what was written since then. Unit: milliseconds since 1970.
  package var since: Int64?
  package var marks: [LogMark]
  /// Whether another request follows: an entry that is written meanwhile then waits for it, so that all come in order.
  package var isFollowed: Bool

  package init(
    nodes: [String]? = nil, lines: Int? = nil, since: Int64? = nil, marks: [LogMark] = [],
    isFollowed: Bool = false
  ) {
    self.nodes = nodes
    self.lines = lines
    self.since = since
    self.marks = marks
    self.isFollowed = isFollowed
  }

  /// Goes on behind a page. A log that is not there for a moment keeps its mark.
  package mutating func take(_ new: [LogMark]) {
    (lines, since) = (nil, nil)
    let nodes = Set(new.map(\.node))
    marks = marks.filter { !nodes.contains($0.node) } + new
  }
}

/// How far the log of a node was read.
package struct LogMark: Codable, Hashable, Sendable {
  package var node: String
  /// Names the file, wherever rotation has moved it.
  package var file: String
  /// Unit: bytes.
  package var offset: Int
  /// That of the last line. Unit: nanoseconds since 1970.
  package var time: Int64
  /// The files before it, oldest first, as far as they were there: they were read, or are not wanted.
  package var former: [String]

  package init(
    node: String, file: String, offset: Int, time: Int64 = 0, former: [String] = []
  ) {
    self.node = node
    self.file = file
    self.offset = offset
    self.time = time
    self.former = former
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
  /// Refused events that became no dead letters, since there were too many.
  package var lost: UInt64

  package init(letters: [DeadLetter], hasMore: Bool, lost: UInt64) {
    self.letters = letters
    self.hasMore = hasMore
    self.lost = lost
  }
}

/// How much of a log is kept: the file that is written, and those that were put aside before it.
public struct LogRetention: Hashable, Sendable {
  /// The size at which a file is put aside. Unit: bytes. Default: 1 MiB. Range: 4 KiB…100 MiB.
  public var maxSize: Int
  /// The files that are kept, with the one that is written. Default: 3. Range: 1…100.
  public var maxFiles: Int

  /// Makes a retention.
  public init(maxSize: Int = 1 << 20, maxFiles: Int = 3) {
    self.maxSize = maxSize
    self.maxFiles = maxFiles
  }

  package static let sizeRange = 4 << 10...100 << 20
  package static let fileRange = 1...100
}

/// What the lines start with that a node writes about itself, by which others know them.
package enum NodeLogPrefix {
  package static let note = "piperuntime: "
  package static let warning = "piperuntime: warning: "
  package static let error = "piperuntime: error: "

  /// What comes before those where they tell of a lodger, another node in the same process.
  package static func ofLodger(_ node: String) -> String { "[\(node)] " }
}
