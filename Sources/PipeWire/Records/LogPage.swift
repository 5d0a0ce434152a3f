/// A request for a page of logs: the body of a `logs` command.
///
/// The orchestrator keeps no state between requests. The client passes the positions of the last
/// page to request the next page.
package struct LogRequest: Codable, Hashable, Sendable {
  /// The nodes whose logs are read; `nil` for all nodes, including nodes that appear later.
  package var nodes: [String]?
  /// For logs that are not in `positions`: the number of last lines to read; `nil` for all lines.
  package var lines: Int?
  /// For logs that are not in `positions`: the time of the oldest entry to read. Unit: milliseconds
  /// since 1970.
  package var since: Int64?
  package var positions: [LogPosition]
  /// Whether another request follows this request. In this case, entries that are written during
  /// this request are left for the next request, so that all entries arrive in order.
  package var isFollowed: Bool

  package init(
    nodes: [String]? = nil, lines: Int? = nil, since: Int64? = nil, positions: [LogPosition] = [],
    isFollowed: Bool = false
  ) {
    self.nodes = nodes
    self.lines = lines
    self.since = since
    self.positions = positions
    self.isFollowed = isFollowed
  }

  /// Updates the request, so that it continues after a page with these positions. A log that is
  /// temporarily missing keeps its position.
  package mutating func take(_ new: [LogPosition]) {
    (lines, since) = (nil, nil)
    let nodes = Set(new.map(\.node))
    positions = positions.filter { !nodes.contains($0.node) } + new
  }
}

/// The position up to which a node's log was read.
package struct LogPosition: Codable, Hashable, Sendable {
  package var node: String
  /// The identity of the log file, which rotation does not change.
  package var file: String
  /// The position in the file. Unit: bytes.
  package var offset: Int
  /// The time of the last line that was read. Unit: nanoseconds since 1970.
  package var time: Int64
  /// The rotated files that existed when the position was recorded, oldest first. Later requests do
  /// not read these files again.
  package var formerFiles: [String]

  private enum CodingKeys: String, CodingKey {
    case node, file, offset, time
    case formerFiles = "former"
  }

  package init(
    node: String, file: String, offset: Int, time: Int64 = 0, formerFiles: [String] = []
  ) {
    self.node = node
    self.file = file
    self.offset = offset
    self.time = time
    self.formerFiles = formerFiles
  }
}

/// A page of log lines, in order of time.
package struct LogPage: Codable, Hashable, Sendable {
  /// A line as written in the log: `2026-11-20T09:00:00.123Z out text`.
  package struct Line: Codable, Hashable, Sendable {
    package var node: String
    package var text: String

    package init(node: String, text: String) {
      self.node = node
      self.text = text
    }
  }

  package var lines: [Line]
  /// The position up to which each existing log was read.
  package var positions: [LogPosition]
  /// Whether further lines did not fit into the answer.
  package var hasMore: Bool

  package init(lines: [Line], positions: [LogPosition], hasMore: Bool) {
    self.lines = lines
    self.positions = positions
    self.hasMore = hasMore
  }
}

/// Some dead letters of a node, oldest first.
package struct DeadLetterPage: Codable, Hashable, Sendable {
  package var deadLetters: [DeadLetter]
  /// Whether further dead letters did not fit into the answer.
  package var hasMore: Bool
  /// The number of refused events that were not stored because there were too many dead letters.
  package var lostCount: UInt64

  private enum CodingKeys: String, CodingKey {
    case deadLetters, hasMore
    case lostCount = "lost"
  }

  package init(deadLetters: [DeadLetter], hasMore: Bool, lostCount: UInt64) {
    self.deadLetters = deadLetters
    self.hasMore = hasMore
    self.lostCount = lostCount
  }
}

/// The limits on the log files that are kept, including the current file.
public struct LogRetention: Hashable, Sendable {
  /// The size at which a file is rotated. Unit: bytes. Default: 1 MiB. Range: 4 KiB…100 MiB.
  public var maxSize: Int
  /// The number of files to keep, including the current file. Default: 3. Range: 1…100.
  public var maxFiles: Int

  /// Makes limits.
  public init(maxSize: Int = 1 << 20, maxFiles: Int = 3) {
    self.maxSize = maxSize
    self.maxFiles = maxFiles
  }

  package static let sizeRange = 4 << 10...100 << 20
  package static let fileRange = 1...100
}

/// The prefixes of the lines that a node writes about itself, by which readers recognize these lines.
package enum NodeLogPrefix {
  package static let note = "piperuntime: "
  package static let warning = "piperuntime: warning: "
  package static let error = "piperuntime: error: "

  /// Returns the prefix of lines about an embedded coordinator. In the log of the carrier node,
  /// this prefix comes before the other prefixes.
  package static func ofEmbeddedNode(_ node: String) -> String { "[\(node)] " }
}
