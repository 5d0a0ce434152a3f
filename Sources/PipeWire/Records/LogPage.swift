/// A request for a page of logs: the body of a `logs` command.
///
/// The orchestrator keeps no state between requests: the positions of the last page give the start of
/// the next one.
package struct LogRequest: Codable, Hashable, Sendable {
  /// The nodes; `nil` for all nodes, including nodes that appear later.
  package var nodes: [String]?
  /// For logs without a mark: the number of last lines to read; `nil` for all lines.
  package var lines: Int?
  /// For logs without a mark: the time of the oldest entry to read. Unit: milliseconds since 1970.
  package var since: Int64?
  package var positions: [LogPosition]
  /// Whether another request follows. If so, an entry written during this request waits for the
  /// next one, so that all entries come in order.
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

  /// Continues after a page. A log that is temporarily missing keeps its mark.
  package mutating func take(_ new: [LogPosition]) {
    (lines, since) = (nil, nil)
    let nodes = Set(new.map(\.node))
    positions = positions.filter { !nodes.contains($0.node) } + new
  }
}

/// A position in a node's log, up to which it was read.
package struct LogPosition: Codable, Hashable, Sendable {
  package var node: String
  /// The identity of the file, even after rotation has renamed it.
  package var file: String
  /// The position in the file. Unit: bytes.
  package var offset: Int
  /// The time of the last line that was read. Unit: nanoseconds since 1970.
  package var time: Int64
  /// The older files at that time, oldest first. They were read before, or the request skips them.
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
  /// A mark for each existing log.
  package var positions: [LogPosition]
  /// Whether there are more lines than fit into an answer.
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
  /// Whether there are more dead letters than fit into an answer.
  package var hasMore: Bool
  /// The number of refused events that did not become dead letters because there were too many.
  package var lost: UInt64

  package init(deadLetters: [DeadLetter], hasMore: Bool, lost: UInt64) {
    self.deadLetters = deadLetters
    self.hasMore = hasMore
    self.lost = lost
  }
}

/// The amount of log that is kept: the current file and the rotated files.
public struct LogRetention: Hashable, Sendable {
  /// The size at which a file is rotated. Unit: bytes. Default: 1 MiB. Range: 4 KiB…100 MiB.
  public var maxSize: Int
  /// The number of files to keep, including the current file. Default: 3. Range: 1…100.
  public var maxFiles: Int

  /// Makes a retention.
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

  /// Returns the prefix, before the prefixes above, of lines about an embedded coordinator in the
  /// same process.
  package static func ofEmbeddedNode(_ node: String) -> String { "[\(node)] " }
}
