import PipeClient
import PipeJournal
import PipeRuntime

/// The verb `orchestrator instances`.
struct ListInstances: Verb {
  let description = VerbDescription(
    "instances", "Lists the instances of a node that has a 'key'",
    discussion:
      "Reads the node's journal; the node does not have to be running. The instances are sorted "
      + "by their keys, which are compared byte by byte. Times are local on a terminal, and "
      + "UTC in redirected output and JSON.",
    options: [
      .topology, .output,
      Option("state", value: .text("STATE"), "Lists only instances in this state"),
      Option(
        "older", value: .duration, "Lists only instances whose last step is at least this long ago"),
      Option("after", value: .text("KEY"), "Lists only instances whose keys come after this key"),
      Option("lines", "n", value: .count("N", from: 1), "Lists at most N instances. Default: 100"),
    ],
    positionals: [
      Positional("NODE", .node, .one, "The node"),
      Positional("KEY", .text("KEY"), .any, "The keys of the instances. Default: all"),
    ],
    examples: [
      ("orchestrator instances orders", "Lists the first 100 orders"),
      (
        "orchestrator instances orders --state placed --older 1h",
        "Lists orders that were placed an hour ago or earlier and are not paid yet"
      ),
      ("orchestrator instances orders 4711 -o json", "Prints one order as JSON"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let node = arguments.positionals[0]
    let keys = Array(arguments.positionals.dropFirst())
    let age = arguments.duration("older")
    let limit = arguments.countValue("lines") ?? 100
    // Requests one instance more than the limit, to find out whether there are further instances.
    let selection = InstanceSelection(
      after: arguments.value("after"), keys: keys.isEmpty ? nil : keys,
      label: arguments.value("state"),
      before: age.map { WallClock.nanoseconds - $0.wholeMilliseconds * 1_000_000 + 1 },
      limit: limit + 1)
    let found = try await instances(of: node, selection, arguments)
    let shown = found.prefix(limit)
    try console.print(shown.map(\.record), as: arguments.format) {
      Self.table(shown, console.style)
    }
    for key in keys where !found.contains(where: { $0.key.text == key }) && selection.isPlain {
      throw CommandError("node '\(node)' has no instance '\(key)'")
    }
    if found.count > limit, arguments.format == .text, let last = shown.last {
      console.note(
        "there are more instances; '--after \(last.key)' lists the next instances, '-n' lists more")
    }
    return .success
  }

  private func instances(
    of node: String, _ selection: InstanceSelection, _ arguments: ParsedArguments
  ) async throws -> [RecordedInstance] {
    if case .remote = try arguments.target {
      let client = try TopologyClient.attach(to: arguments.target)
      defer { client.close() }
      return try await client.records.instances(of: node, selection)
    }
    let directories = try StoredTopology.findDirectories(arguments, requiredContent: "journals")
    do {
      return try await TopologyRecords.files(directories).instances(of: node, selection)
    } catch JournalError.missing(let path, let node) {
      try directories.checkIsKnown(node)
      throw JournalError.missing(path: path, node: node)
    }
  }

  private static func table(_ instances: ArraySlice<RecordedInstance>, _ style: Style) -> Table {
    var table = Table(
      .init("KEY"), .init("VERSION", .right), .init("TIME"), .init("CAUSE"), .init("STATE"))
    for instance in instances {
      table.add(
        instance.key.text.printable, String(instance.version), style.time(instance.time),
        instance.cause, instance.stateJSON.stateText(fields: nil).cut(to: 200))
    }
    return table
  }
}

extension InstanceSelection {
  /// Whether the selection has no condition, except possibly a list of keys.
  fileprivate var isPlain: Bool { label == nil && time == nil && after == nil }
}

extension RecordedInstance {
  fileprivate var stateJSON: JSONValue {
    (try? JSONValue(parsing: state)) ?? .string(String(decoding: state, as: UTF8.self))
  }

  /// The JSON for `-o json` and `-o jsonl`.
  fileprivate var record: JSONValue {
    [
      "key": .string(key.text), "version": .count(version),
      "time": .string(Timestamp(nanoseconds: time).description), "cause": .string(cause),
      "state": stateJSON,
    ]
  }
}
