import PipeClient
import PipeRuntime
import PipeSupervision

/// The verb `orchestrator journal`.
struct ShowJournal: Verb {
  let description = VerbDescription(
    "journal", "Shows the contents of a node's journal, or the sizes of journals",
    discussion:
      "With --size, shows the size of each journal, its rows by kind, and the space on its disk, "
      + "for the named nodes or for all nodes. The node does not have to be running. docs/JOURNAL.md describes the tables of a journal. "
      + "Times are local on a terminal, and UTC in redirected output and JSON.",
    options: [
      .topology, .output,
      Option(
        "lines", "n", value: .count("N"),
        "Shows the last N records, and the first N waiting events of each pipe. Default: 10"),
      Option("size", "s", "Shows the sizes of the journals and the space on their disks"),
    ],
    positionals: [
      Positional("NODE", .node, .any, "The node; with --size some nodes. Default: all")
    ],
    examples: [
      ("orchestrator journal door", "Shows state, pipes, effects and the last ten records"),
      ("orchestrator journal --size -p lift", "Shows which journals of a topology are large"),
      ("orchestrator journal door -n 1000 -o json", "Prints every record in the journal as JSON"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    if arguments.contains(option: "size") { return try showSizes(arguments, console) }
    guard let node = arguments.positionals.first else {
      throw UsageError.missingPositional("NODE", of: "orchestrator journal")
    }
    if arguments.positionals.count > 1 {
      throw UsageError.extraPositional(arguments.positionals[1], of: "orchestrator journal")
    }
    let limit = arguments.countValue("lines") ?? 10
    let snapshot = try await snapshot(of: node, limit: limit, arguments)
    let report = JournalReport(snapshot: snapshot, limit: limit)
    try console.print(report.record, as: arguments.format, lines: report.lines(console.style))
    return .success
  }

  private func showSizes(_ arguments: ParsedArguments, _ console: Console) throws -> ExitCode {
    guard arguments.countValue("lines") == nil else {
      throw UsageError.conflict("'--size'", "'--lines'")
    }
    try arguments.requireLocalTopology("'orchestrator journal --size' reads the files of journals")
    let directories = try StoredTopology.findDirectories(arguments, requiredContent: "journals")
    let report = try JournalSizeReport(of: arguments.positionals, in: directories)
    try console.print(
      report.records, as: arguments.format,
      lines: report.lines(
        console.style, width: console.isTerminal ? console.size.columns : nil))
    return report.sizes.contains { $0.failure != nil } ? .failure : .success
  }

  private func snapshot(
    of node: String, limit: Int, _ arguments: ParsedArguments
  ) async throws -> JournalSnapshot {
    if case .remote = try arguments.target {
      let client = try TopologyClient.attach(to: arguments.target)
      defer { client.close() }
      return try await client.records.journal(of: node, limit: limit)
    }
    let directories = try StoredTopology.findDirectories(arguments, requiredContent: "journals")
    do {
      return try await TopologyRecords.files(directories).journal(of: node, limit: limit)
    } catch JournalError.missing(let path, let node) {
      try directories.checkIsKnown(node)
      throw JournalError.missing(path: path, node: node)
    }
  }
}

extension RuntimeDirectories {
  /// The nodes that have a journal, or remaining files of a journal.
  var nodesWithJournals: [String] {
    Set(
      JournalReader.nodesWithJournals(in: journals)
        + JournalPaths(in: self).nodesWithExternalJournals
    )
    .sorted()
  }

  /// Throws an error if there is no journal and no log with this name: no such node has run.
  func checkIsKnown(_ node: String) throws {
    let known = Set(nodesWithJournals + LogReader.nodesWithLogs(in: logs))
      .subtracting(["orchestrator"]).sorted()
    guard !known.contains(node) else { return }
    throw CommandError.unknownNode(node, of: topology, known: known)
  }
}

/// The output of `journal` for one node.
struct JournalReport {
  let snapshot: JournalSnapshot
  /// The maximum number of records to show.
  let limit: Int

  /// Returns a heading, one or more lines for each known property, and a table of the last records.
  func lines(_ style: Style) -> [String] {
    let heading =
      "\(style.bold(snapshot.node))  of topology \(snapshot.topology), "
      + "machine \(snapshot.machine)".printable
    let hasDeadLetters = snapshot.deadLetterCount > 0 || snapshot.lostDeadLetters > 0
    let parts = [
      ("file", ["\(snapshot.path)  (\(snapshot.byteCount / 1024) KiB)"]),
      ("created", ["\(creationText(style)), id \(snapshot.id)"]),
      ("state", [state]),
      ("pipes in", snapshot.ins.flatMap(lines(of:))),
      ("pipes out", snapshot.outs.flatMap(lines(of:))),
      ("effects", snapshot.effects.map { line(of: $0, style) }),
      ("timer", [snapshot.timer.map { line(of: $0, style) }].compactMap(\.self)),
      ("dead letters", hasDeadLetters ? [deadLetterText] : []),
      ("requests", ["\(snapshot.requestCount) answered, kept for clients that repeat a request"]),
    ]
    let records = snapshot.records.suffix(limit)
    return [heading] + style.lines(of: parts, labelWidth: 12)
      + (records.isEmpty ? [] : [""] + table(Array(records), style).lines(style: style))
  }

  /// The JSON form.
  var record: JSONValue {
    [
      "topology": .string(snapshot.topology), "node": .string(snapshot.node),
      "machine": .string(snapshot.machine), "path": .string(snapshot.path),
      "byteCount": .integer(snapshot.byteCount), "created": .string(snapshot.created),
      "id": .string(snapshot.id), "state": snapshot.records.last?.state ?? .null,
      "version": snapshot.records.last.map { .count($0.version) } ?? .null,
      "records": .array(snapshot.records.suffix(limit).map(\.record)),
      "ins": .array(snapshot.ins.map(\.record)), "outs": .array(snapshot.outs.map(\.record)),
      "effects": .array(snapshot.effects.map(\.record)),
      "timer": snapshot.timer?.record ?? .null,
      "deadLetters": .integer(Int64(snapshot.deadLetterCount)),
      "deadLettersLost": .count(snapshot.lostDeadLetters),
      "requests": .integer(Int64(snapshot.requestCount)),
    ]
  }

  private func creationText(_ style: Style) -> String {
    Timestamp(snapshot.created).map(style.text) ?? snapshot.created
  }

  private var state: String {
    guard let record = snapshot.records.last else {
      return "none: the node has never entered a state"
    }
    return "\(text(of: record.state, cut: 1000))  (version \(record.version))"
  }

  private func text(of state: JSONValue, cut limit: Int) -> String {
    state.stateText(fields: snapshot.stateFields).cut(to: limit)
  }

  private var deadLetterText: String {
    "\(snapshot.deadLetterCount)"
      + (snapshot.lostDeadLetters > 0 ? ", and \(snapshot.lostDeadLetters) lost" : "")
      + "; 'orchestrator dead-letters \(snapshot.node)' lists them"
  }

  private func lines(of pipe: JournalSnapshot.InPipe) -> [String] {
    var line = "\(pipe.name)  \(pipe.lastConsumedNumber) consumed"
    if pipe.postponedCount > 0 { line += ", \(pipe.postponedCount) of them postponed" }
    if pipe.senderClosed { line += ", its sender has stopped" }
    return [line] + events(pipe.postponed, of: pipe.postponedCount)
  }

  private func lines(of pipe: JournalSnapshot.OutPipe) -> [String] {
    ["\(pipe.name)  \(pipe.queued) queued, \(pipe.acknowledged) acknowledged"]
      + events(pipe.unacknowledgedEvents, of: Int(clamping: pipe.waitingCount))
  }

  private func events(_ events: [JournalSnapshot.Event], of count: Int) -> [String] {
    let omittedCount = count - events.count
    return events.map { "  \($0.sequence): \($0.event.caseText.cut(to: 200))" }
      + (omittedCount > 0 && limit > 0 ? ["  and \(omittedCount) more"] : [])
  }

  private func line(of effect: JournalSnapshot.Effect, _ style: Style) -> String {
    "of version \(effect.version), \(text(of: effect.state, cut: 200)), "
      + "at \(style.time(effect.time))"
  }

  private func line(of timer: JournalSnapshot.Timer, _ style: Style) -> String {
    "of version \(timer.version), since \(style.time(timer.time)), due at \(style.time(timer.due))"
  }

  private func table(_ records: [JournalSnapshot.Record], _ style: Style) -> Table {
    var table = Table(
      .init("VERSION", .right), .init("START", .right), .init("TIME"), .init("CAUSE"),
      .init("STEPS", .right), .init("STATE"))
    for record in records {
      table.add(
        String(record.version), String(record.incarnation),
        style.time(record.time), record.cause, String(record.stepCount),
        text(of: record.state, cut: 200))
    }
    return table
  }
}

extension JournalSnapshot.Record {
  fileprivate var record: JSONValue {
    [
      "version": .count(version), "incarnation": .count(incarnation),
      "time": .string(Timestamp(nanoseconds: time).description), "cause": .string(cause),
      "steps": .count(stepCount), "state": state,
    ]
  }
}

extension JournalSnapshot.Event {
  fileprivate var record: JSONValue { ["sequence": .count(sequence), "event": event] }
}

extension JournalSnapshot.InPipe {
  fileprivate var record: JSONValue {
    [
      "pipe": .string(name), "stream": .string(stream),
      "consumed": .count(lastConsumedNumber), "senderClosed": .bool(senderClosed),
      "postponed": .integer(Int64(postponedCount)),
      "postponedEvents": .array(postponed.map(\.record)),
    ]
  }
}

extension JournalSnapshot.OutPipe {
  fileprivate var record: JSONValue {
    [
      "pipe": .string(name), "queued": .count(queued), "acknowledged": .count(acknowledged),
      "waiting": .count(waitingCount), "waitingEvents": .array(unacknowledgedEvents.map(\.record)),
    ]
  }
}

extension JournalSnapshot.Timer {
  fileprivate var record: JSONValue {
    [
      "version": .count(version), "time": .string(Timestamp(nanoseconds: time).description),
      "due": .string(Timestamp(nanoseconds: due).description),
    ]
  }
}

extension JournalSnapshot.Effect {
  fileprivate var record: JSONValue {
    [
      "version": .count(version), "state": state,
      "time": .string(Timestamp(nanoseconds: time).description),
    ]
  }
}
