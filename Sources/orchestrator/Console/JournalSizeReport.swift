import PipeClient
import PipeRuntime
import PipeSupport

/// The output of `journal --size`.
struct JournalSizeReport {
  let sizes: [JournalSize]

  /// Measures the journals of some nodes, or of all nodes if `nodes` is empty. The name of a node
  /// with shards means all of its shards.
  init(of nodes: [String], in directories: RuntimeDirectories) throws {
    let known = directories.nodesWithJournals
    let names = nodes.isEmpty ? known : NodeShard.processes(of: nodes, among: known)
    if let unknown = names.first(where: { !known.contains($0) }) {
      try directories.checkIsKnown(unknown)
      throw CommandError("node '\(unknown)' has no journal; omit the node, or set its 'durability'")
    }
    let paths = JournalPaths(in: directories)
    sizes = names.map { JournalSize(of: $0, journal: paths[$0]) }
  }

  /// Returns a table of the journals, and a line for each disk and for each unreadable journal.
  func lines(_ style: Style, width: Int?) -> [String] {
    guard !sizes.isEmpty else { return ["no node has a journal yet"] }
    return table.lines(style: style, width: width) + [""] + diskLines + failureLines
  }

  private var table: Table {
    let counts = Self.counts.filter { count in
      count.isAlwaysShown || sizes.contains { ($0.rows?[keyPath: count.path] ?? 0) > 0 }
    }
    var table = Table(
      [
        .init("NODE"), .init("TOTAL", .right), .init("DATABASE", .right),
        .init("UNUSED", .right, dropOrder: 1), .init("WAL", .right), .init("LOG", .right),
      ] + counts.map { .init($0.heading, .right) })
    func add(_ name: String, _ sizes: [JournalSize]) {
      func sum(_ value: (JournalSize) -> Int64) -> Int64 { sizes.reduce(0) { $0 + value($1) } }
      let bytes = [
        sum(\.space.total), sum(\.space.database), sum(\.unused), sum(\.space.writeAheadLog),
        sum(\.space.recordLog),
      ].map(ByteSizeText.rounded)
      let isReadable = sizes.contains { $0.rows != nil }
      table.add(
        [name] + bytes
          + counts.map { count in
            isReadable ? String(sum { $0.rows?[keyPath: count.path] ?? 0 }) : "?"
          })
    }
    for size in sizes { add(size.node, [size]) }
    if sizes.count > 1 { add("(all)", sizes) }
    return table
  }

  private struct Count {
    let heading: String
    let path: KeyPath<JournalSize.Rows, Int64> & Sendable
    var isAlwaysShown = false
  }

  /// The columns with numbers of rows. A column without rows is omitted, unless it is always shown.
  private static let counts = [
    Count(heading: "RECORDS", path: \.records, isAlwaysShown: true),
    Count(heading: "DEAD LETTERS", path: \.deadLetters, isAlwaysShown: true),
    Count(heading: "OUTBOX", path: \.outboxEvents, isAlwaysShown: true),
    Count(heading: "POSTPONED", path: \.postponedEvents),
    Count(heading: "EFFECTS", path: \.effects), Count(heading: "INSTANCES", path: \.instances),
    Count(heading: "REQUESTS", path: \.requests), Count(heading: "COMMITS", path: \.commits),
  ]

  private var diskLines: [String] {
    var devices: Set<UInt64> = []
    return sizes.compactMap { size in
      guard let disk = size.space.disk, devices.insert(disk.device).inserted else { return nil }
      let path = FileSystem.parentDirectory(of: size.path).printable
      return "disk of \(path): \(disk.usedPercent) % of \(ByteSizeText.rounded(disk.size)) used, "
        + "\(ByteSizeText.rounded(disk.free)) free"
    }
  }

  private var failureLines: [String] {
    sizes.compactMap { size in size.failure.map { "\(size.node): \($0)".printable } }
  }

  /// The JSON form of each journal.
  var records: [JSONValue] {
    sizes.map { size in
      [
        "node": .string(size.node), "path": .string(size.path),
        "total": .integer(size.space.total), "database": .integer(size.space.database),
        "unused": .integer(size.unused), "writeAheadLog": .integer(size.space.writeAheadLog),
        "log": .integer(size.space.recordLog),
        "rows": size.rows.map(\.record) ?? .null,
        "disk": size.space.disk.map {
          [
            "device": .count($0.device), "size": .integer($0.size), "free": .integer($0.free),
            "usedPercent": .integer(Int64($0.usedPercent)),
          ]
        } ?? .null,
        "error": .optional(size.failure),
      ]
    }
  }
}

extension JournalSize.Rows {
  fileprivate var record: JSONValue {
    [
      "records": .integer(records), "deadLetters": .integer(deadLetters),
      "outboxEvents": .integer(outboxEvents), "postponedEvents": .integer(postponedEvents),
      "effects": .integer(effects), "instances": .integer(instances),
      "requests": .integer(requests), "commits": .integer(commits),
    ]
  }
}
