import PipeSupport
import PipeTopology
import PipeWire
import TestSupport
import Testing

/// A bad text, the location of its only error, a part of the message, and the code.
struct BadTopology: CustomTestStringConvertible {
  var text: String
  var place: String
  var message: String
  var code: Diagnostic.Code
  /// Whether the JSON Schema detects the error, too. It knows types and no names.
  var isReportedBySchema = true

  var testDescription: String { "\(code.rawValue) at \(place): \(message)" }

  static func node(
    _ node: String, _ place: String, _ message: String, _ code: Diagnostic.Code,
    isReportedBySchema: Bool = true
  ) -> BadTopology {
    BadTopology(
      text: withNodes("a: \(node)\nb: { machine: M }"), place: place, message: message, code: code,
      isReportedBySchema: isReportedBySchema)
  }

  static func pipe(
    _ pipe: String, _ place: String, _ message: String, _ code: Diagnostic.Code,
    isReportedBySchema: Bool = true
  ) -> BadTopology {
    BadTopology(
      text: withPipe(pipe), place: place, message: message, code: code,
      isReportedBySchema: isReportedBySchema)
  }

  static func top(
    _ rest: String, _ place: String, _ message: String, _ code: Diagnostic.Code,
    isReportedBySchema: Bool = true
  ) -> BadTopology {
    BadTopology(
      text: withNodes("a: { machine: M }", and: rest), place: place, message: message, code: code,
      isReportedBySchema: isReportedBySchema)
  }

  static let nodes: [BadTopology] = [
    .node("[]", "4:6", "node 'a' must be a mapping, not a list", .badValue),
    .node("{ machine: }", "4:17", "'machine' must be a machine's name, not nothing", .badValue),
    .node(
      #"{ machine: "a\0" }"#, "4:17", "without control characters", .badValue,
      isReportedBySchema: false),
    .node(
      #"{ machine: M, environment: { A: "\0" } }"#, "4:38", "must be text", .badValue,
      isReportedBySchema: false),
    .node("{ machine: 12 }", "4:17", "put 12 in quotes", .badValue),
    .node(
      "{ machine: M, resident: 5 }", "4:30", "'resident' requires 'key'", .conflictingKeys,
      isReportedBySchema: false),
    .node(
      "{ machine: M, shards: 2 }", "4:28", "'shards' requires 'key'", .conflictingKeys,
      isReportedBySchema: false),
    .node(
      "{ machine: M, key: k, shards: 0 }", "4:36",
      "must be an integer number of shards from 1 to 1024", .badValue),
    .node(
      "{ machine: M, final: [s] }", "4:27", "'final' requires 'key'", .conflictingKeys,
      isReportedBySchema: false),
    .node(
      "{ machine: M, key: k, keep: 1s }", "4:34", "'keep' requires 'final'", .conflictingKeys,
      isReportedBySchema: false),
    .node(
      "{ machine: M, key: k, resident: 0 }", "4:38",
      "must be an integer number of instances from 1 to 100000000", .badValue),
    .node(
      "{ machine: M, key: k, resident: 5, durability: none }", "4:38",
      "'resident' requires a journal", .conflictingKeys, isReportedBySchema: false),
    .node(
      "{ constant: s, key: k }", "4:26", "a constant has no instances", .conflictingKeys,
      isReportedBySchema: false),
    .node("{ machine: M, mashine: N }", "4:20", Suggestion.hint("machine"), .unknownKey),
    .node(
      "{ <<: 3, machine: M }", "4:12",
      "'<<' must be an alias of a mapping, or a list of aliases, not 3",
      .badValue),
    .node(
      "{ <<: { required: true }, <<: { required: false }, machine: M }", "4:32",
      "list both aliases in one '<<'", .duplicateKey),
    .node(#"{ "<<": { machine: M }, machine: M }"#, "4:8", "unknown key '<<'", .unknownKey),
    .node(
      "{ machine: M, parameters: { n: 99999999999999999999 } }", "4:37",
      "'parameters.n' cannot be 99999999999999999999: integers range from -9223372036854775808 to "
        + "9223372036854775807", .badValue, isReportedBySchema: false),
    .node(
      "{ machine: M, parameters: { n: [-9223372036854775809] } }", "4:38",
      "cannot be -9223372036854775809", .badValue, isReportedBySchema: false),
    .node(
      "{ machine: ${M:-}, required: true }", "4:17", "must be a machine's name, not nothing",
      .badValue, isReportedBySchema: false),
    .node(
      "{ machine: ${1M} }", "4:17", "'${1M}' is not a valid variable; write '${NAME}'",
      .badVariable,
      isReportedBySchema: false),
    .node(
      "{ machine: M, machine: N }", "4:20", "node 'a'", .duplicateKey, isReportedBySchema: false),
    .node(
      "{ machine: M, logs: { max_size: 10 } }", "4:38",
      "'logs.max_size' must be a size from 4KiB to 100MiB, such as 10MB, not 10", .badValue),
    .node(
      "{ machine: M, logs: { max_size: 101MiB } }", "4:38", "from 4KiB to 100MiB", .badValue,
      isReportedBySchema: false),
    .node("{ machine: M, logs: { max_size: 4 KiB } }", "4:38", "not '4 KiB'", .badValue),
    .node(
      "{ machine: M, logs: { max_files: 0 } }", "4:39",
      "'logs.max_files' must be an integer number of files from 1 to 100, not 0", .badValue),
    .node("{ machine: M, logs: { max_file: 3 } }", "4:28", "mean 'max_files'?", .unknownKey),
    .node(
      "{ machine: M, journal: { records: 7 } }", "4:40",
      "'journal.records' must be an integer number of records from 8 to 100000, not 7", .badValue),
    .node(
      "{ machine: M, journal: { dead_letters: 0 } }", "4:45", "from 1 to 100000, not 0", .badValue),
    .node("{ machine: M, journal: { record_age: 7 } }", "4:43", "has no unit", .badDuration),
    .node(
      "{ machine: M, durability: none, journal: { records: 8 } }", "4:47",
      "'journal' has no effect with 'durability: none'", .conflictingKeys,
      isReportedBySchema: false),
    .node(
      "{ constant: s, journal: { records: 8 } }", "4:30", "a constant keeps no journal",
      .conflictingKeys, isReportedBySchema: false),
    .node("{ constant: closed, parameters: {} }", "4:26", "remove them", .conflictingKeys),
    .node("{ constant: 3 }", "4:18", "must be a label, or {label: {field: value}}", .badValue),
    .node("{ constant: { a: 1 } }", "4:18", "name the field", .badValue),
    .node("{ constant: { a: {}, b: {} } }", "4:18", "must be a label", .badValue),
    .node("{ constant: a b }", "4:18", "'a b' is not a valid Swift case name", .badValue),
    .node("{ machine: M, parameters: 3 }", "4:32", "must be a mapping, not 3", .badValue),
    .node(
      "{ machine: M, parameters: { x: .inf } }", "4:37", "which JSON does not support", .badValue,
      isReportedBySchema: false),
    .node("{ machine: M, required: yes }", "4:30", "true or false, not 'yes'", .badValue),
    .node("{ machine: M, environment: { 1A: x } }", "4:35", "not a valid variable name", .badName),
    .node("{ machine: M, environment: { A: [] } }", "4:38", "must be text", .badValue),
    .node("{ machine: M, depends_on: b }", "4:32", "{ door: ready }", .badValue),
    .node("{ machine: M, depends_on: { b: raedy } }", "4:37", Suggestion.hint("ready"), .badValue),
    .node("{ machine: M, depends_on: [b, b] }", "4:36", "lists 'b' twice", .duplicateKey),
    .node(
      "{ machine: M, depends_on: { b: closed } }", "4:37",
      "cannot be 'closed'; write 'ready', or a state to wait for, as in { state: closed }",
      .badValue),
    .node("{ machine: M, depends_on: { b: [s] } }", "4:37", "cannot be a list", .badValue),
    .node(
      "{ machine: M, depends_on: { b: {} } }", "4:37",
      "node 'a': 'depends_on.b' has no 'state'; add it, or write 'ready'", .missingKey),
    .node(
      "{ machine: M, depends_on: { b: { stat: s } } }", "4:39",
      "'depends_on.b': unknown key 'stat'; valid keys are 'state'. Did you mean 'state'?",
      .unknownKey),
    .node(
      "{ machine: M, depends_on: { b: { state: 3 } } }", "4:46",
      "'depends_on.b.state' must be a label, {label: {field: value}}, or some fields of a struct, "
        + "not 3", .badValue),
    .node("{ machine: M, depends_on: { b: { state: a b } } }", "4:46", "not 'a b'", .badValue),
    .node(
      "{ machine: M, depends_on: { b: { state: {} } } }", "4:46", "not an empty mapping",
      .badValue),
    .node(
      "{ machine: M, depends_on: { c: { state: s } } }", "4:34", "no such node 'c'",
      .unknownNode, isReportedBySchema: false),
    .node(
      "{ machine: M, depends_on: { a: { state: s } } }", "4:34", "'a' -> 'a'", .dependencyCycle,
      isReportedBySchema: false),
    .node(
      "{ machine: M, depends_on: [c] }", "4:33", "no such node 'c'", .unknownNode,
      isReportedBySchema: false),
    .node(
      "{ machine: M, depends_on: [a] }", "4:33", "'a' -> 'a'", .dependencyCycle,
      isReportedBySchema: false),
    .node("{ machine: M, durability: proces }", "4:32", Suggestion.hint("process"), .badValue),
    .node(
      "{ machine: M, on_host_loss: wait }", "4:20",
      "node 'a' has 'on_host_loss', but no 'place'; add 'place: NAME', or remove 'on_host_loss'",
      .conflictingKeys),
    .node(
      "{ constant: s, place: front, on_host_loss: mov }", "4:49", Suggestion.hint("move"), .badValue
    ),
    .node(
      "{ machine: M, place: the lab }", "4:27",
      "node 'a': 'place': 'the lab' is not a valid name; use 1 to 41 characters of A-Z a-z 0-9 _ -",
      .badName),
    .node("{ machine: M, place: 12 }", "4:27", "put 12 in quotes", .badValue),
    .node("{ machine: M, place: [] }", "4:27", "must be a place's name, not", .badValue),
    .node(
      "{ machine: M, restart: { policy: on_failure } }", "4:39", Suggestion.hint("on-failure"),
      .badValue),
    .node("{ machine: M, restart: { window: 0s } }", "4:39", "longer than 0s", .badDuration),
    .node("{ machine: M, restart: { window: 1 m } }", "4:39", "such as 200ms", .badDuration),
    .node(
      "{ machine: M, restart: { backoff: { initial: 2s, max: 1s } } }", "4:40",
      "has 'initial' 2s, which is above its 'max' 1s", .badValue, isReportedBySchema: false),
    .node(
      "{ machine: M, restart: { backoff: { jitter: 2 } } }", "4:50",
      "must be a number from 0 to 1, not 2", .badValue),
    .node(
      "{ machine: M, restart: { backoff: { jitter: much } } }", "4:50",
      "must be a number from 0 to 1", .badValue),
  ]

  static let pipes: [BadTopology] = [
    .pipe("door.arrivals", "7:5", "pipe 1 must be a mapping", .badValue),
    .pipe("{ from: door.arrivals }", "7:5", "has no 'to'; add it", .missingKey),
    .pipe("{ from: door., to: display }", "7:13", "NODE or NODE.PORT", .badName),
    .pipe("{ from: door, to: display }", "7:13", "add 'when: STATE'", .missingKey),
    .pipe("{ from: door, when: closed, to: display }", "7:5", "has no 'send'", .missingKey),
    .pipe("{ from: door, send: refresh, to: display }", "7:5", "has no 'when'", .missingKey),
    .pipe(
      "{ from: door.arrivals, when: closed, to: display, send: refresh }", "7:28",
      "sends its own events", .conflictingKeys),
    .pipe(
      "{ from: door, when: open, to: display, send: { persons: 3 } }", "7:50", "name the field",
      .badValue),
    .pipe(
      "{ from: door, when: open, to: display, send: { persons: { count: $ } } }", "7:50",
      "a '$' without a name in '$'", .badTemplate),
    .pipe(
      "{ from: door, when: open, to: display, send: $persons }", "7:50",
      "is not a valid Swift "
        + "case name",
      .badValue),
    .pipe(
      "{ from: door.arrivals, to: display, capacity: 65537 }", "7:51", "from 1 to 65536",
      .badValue),
    .pipe(
      "{ from: door.arrivals, to: display, on_refused: postpon }", "7:53",
      Suggestion.hint("postpone"), .badValue),
    .pipe(
      "{ from: door.arrivals, to: display, name: \(String(repeating: "x", count: 129)) }", "7:47",
      "1 to 128 characters", .badName),
    .pipe("{ from: door.arrivals, to: display, name: a b }", "7:47", "without spaces", .badName),
    .pipe(
      "{ from: door.arrivals, to: display, durability: power }", "7:53",
      "node 'door' has the lower durability 'process'", .badValue, isReportedBySchema: false),
    .pipe(
      "{ from: door.arrivals, to: dispaly }", "7:32", Suggestion.hint("display"), .unknownNode,
      isReportedBySchema: false),
  ]

  static let tops: [BadTopology] = [
    .top("node: {}\n", "5:1", Suggestion.hint("nodes"), .unknownKey),
    .top("pipes: {}\n", "5:8", "must be a list of pipes, not a mapping", .badValue),
    .top("timeouts: { strat: 1s }\n", "5:13", Suggestion.hint("start"), .unknownKey),
    .top("timeouts: { stop: 5 }\n", "5:19", "write 5s, 5ms or 5m", .badDuration),
    .top("monitors: { m: {} }\n", "5:16", "has no 'monitor'", .missingKey),
    .top(
      "monitors: { m: { monitor: L, watch: [] } }\n", "5:37", "remove it to watch all nodes",
      .badValue),
    .top(
      "monitors: { m: { monitor: L, watch: [b] } }\n", "5:38", "no such node 'b'", .unknownNode,
      isReportedBySchema: false),
    .top(
      "monitors: { a: { monitor: L } }\n", "5:13", "already used by the node at line 4, column 3",
      .nameTaken, isReportedBySchema: false),
    .top("composites: { c: { components: [] } }\n", "5:32", "has no components", .badValue),
    .top("composites: { c: {} }\n", "5:18", "has no 'components'", .missingKey),
    .top(
      "composites: { c: { components: [a], synchronize: { e: [] } } }\n", "5:55",
      "remove the list to include every component that accepts the event", .badValue),
    .top(
      "composites: { c: { components: [a], synchronize: { e f: [a] } } }\n", "5:52",
      "'e f' is not a valid Swift case name", .badValue),
    .top(
      "composites: { c: { components: [a], synchronize: [1] } }\n", "5:51", "put 1 in quotes",
      .badValue),
    .top(
      "composites: { c: { components: [a, a] } }\n", "5:36", "lists 'a' twice", .duplicateKey),
    .top(
      "composites: { a: { components: [a] } }\n", "5:15",
      "already used by the node at line 4, "
        + "column 3",
      .nameTaken, isReportedBySchema: false),
    .top(
      "composites: { c: { components: [c] } }\n", "5:33", "contain each other: c > c",
      .compositeCycle, isReportedBySchema: false),
    BadTopology(
      text: withNodes(
        "a: { machine: M, key: k }\nb: { machine: M, key: k }",
        and: "composites: { c: { components: [a, b] } }\n"),
      place: "6:18", message: "add 'key: k' to the composite", code: .badComponent,
      isReportedBySchema: false),
    BadTopology(
      text: withNodes(
        "a: { machine: M, key: k }\nb: { machine: M }",
        and: "composites: { c: { key: k, components: [a, b] } }\n"),
      place: "6:25", message: "node 'b' has no 'key', unlike the composite", code: .badComponent,
      isReportedBySchema: false),
    BadTopology(
      text: withNodes(
        "a: { machine: M, key: k }\nb: { machine: M, key: j }",
        and: "composites: { c: { key: k, components: [a, b] } }\n"),
      place: "6:25", message: "node 'b' has the key 'j', not 'k'", code: .badComponent,
      isReportedBySchema: false),
    BadTopology(
      text: withNodes(
        "a: { machine: M, key: k }\nb: { machine: M, key: k, shards: 2 }",
        and: "composites: { c: { key: k, components: [a, b] } }\n"),
      place: "6:25", message: "node 'b' has 'shards'", code: .badComponent,
      isReportedBySchema: false),
    BadTopology(
      text: withNodes(
        "a: { machine: M, key: k }\nb: { machine: M, key: k }",
        and: "composites: { c: { key: k, components: [a, b], projection: P } }\n"),
      place: "6:60", message: "remove 'projection'", code: .conflictingKeys,
      isReportedBySchema: false),
    BadTopology(
      text: withNodes(
        "a: { machine: M }\nb: { machine: M, depends_on: { c: { state: s } } }",
        and: "composites: { c: { components: [a] } }\n"),
      place: "5:34", message: "'c' is a composite, and 'depends_on' lists only nodes",
      code: .unknownNode, isReportedBySchema: false),
    BadTopology(
      text: withNodes(
        "a: { machine: M, depends_on: [m] }", and: "monitors: { m: { monitor: L } }\n"),
      place: "4:33", message: "'m' is a monitor, which has no states", code: .unknownNode,
      isReportedBySchema: false),
    BadTopology(
      text: withNodes(
        "c: { constant: s }\na: { machine: M, depends_on: { c: { state: { t: { x: 1 } } } } }"),
      place: "5:46", message: "node 'c' is constant and never in t(x: 1); it stays in s",
      code: .unknownState, isReportedBySchema: false),
    BadTopology(
      text: withNodes(
        "c: { machine: M, key: k }\na: { machine: M, depends_on: { c: { state: s } } }"),
      place: "5:46", message: "node 'c' has a 'key', so each of its instances has its own state",
      code: .unknownState, isReportedBySchema: false),
    BadTopology(
      text: "topology: t\nnodes: { a: { machine: M } }\n", place: "2:10",
      message: "has no program; add", code: .noProgram, isReportedBySchema: false),
    BadTopology(
      text: "topology: t\nprogram: p\nnodes: {}\n", place: "3:8", message: "at least one node",
      code: .missingKey),
    BadTopology(
      text: "program: p\nnodes: { a: { machine: M } }\n", place: "1:1",
      message: "has no 'topology'", code: .missingKey),
    BadTopology(
      text: withNodes("a.b: { machine: M }"), place: "4:3", message: "'a.b' is not a valid name",
      code: .badName),
    BadTopology(
      text: withNodes("orchestrator: { machine: M }"), place: "4:3",
      message: "the name 'orchestrator' is reserved for the orchestrator's own log", code: .badName),
    BadTopology(
      text: withNodes("1: { machine: M }"), place: "4:3",
      message:
        #"node '1': a name must be text, and 1 without quotes is not text; write "1", or start"#,
      code: .badName, isReportedBySchema: false),
    BadTopology(
      text: withNodes("'1': { machine: M }\na: { machine: M, depends_on: { 1: ready } }"),
      place: "5:34", message: #"a name must be text, and 1 without quotes is not text; write "1""#,
      code: .badName, isReportedBySchema: false),
    BadTopology(
      text: withNodes("true: { machine: M }"), place: "4:3", message: #"write "true""#,
      code: .badName, isReportedBySchema: false),
    BadTopology(
      text: withNodes("door: { machine: M }\ndoor: { machine: M }"), place: "5:3",
      message: "duplicate node 'door', first defined at line 4, column 3", code: .duplicateKey,
      isReportedBySchema: false),
    BadTopology(
      text: withNodes("c: { constant: s }\na: { machine: M }")
        + "pipes: [{ from: a.out, to: c }]\n", place: "6:28", message: "accepts no events",
      code: .constantReceiver, isReportedBySchema: false),
    BadTopology(
      text: withNodes("c: { constant: s }\na: { machine: M }")
        + "pipes: [{ from: c.out, to: a }]\n", place: "6:17", message: "has no out-port 'out'",
      code: .unknownPort, isReportedBySchema: false),
    BadTopology(
      text: withNodes("c: { constant: s }\na: { machine: M }")
        + "pipes: [{ from: c, when: r, to: a, send: e }]\n", place: "6:26",
      message: "never enters 'r'; it stays in 's'", code: .unknownState, isReportedBySchema: false),
    BadTopology(
      text: withPipe("{ from: door.arrivals, to: display }")
        + "  - { from: door.arrivals, to: display }\n", place: "8:5",
      message: "first defined at line 7, column 5", code: .nameTaken, isReportedBySchema: false),
  ]
}

@Suite("Topology files with errors, read from text")
struct TopologyErrorTests {
  @Test(
    "A bad topology is refused with the location, the error and what to do",
    arguments: BadTopology.nodes + BadTopology.pipes + BadTopology.tops)
  func refused(bad: BadTopology) {
    let found = errors(bad.text)
    #expect(found.count == 1)
    let first = found.first ?? ""
    #expect(first.hasPrefix("test.yaml:\(bad.place): error: "), "\(found)")
    #expect(first.contains(bad.message), "\(found)")
    #expect(first.hasSuffix("[\(bad.code.rawValue)]"), "\(found)")
  }

  @Test("A file that is cut or garbled at any position is read, or refused with a location")
  func garbled() throws {
    let text = try packageFile("topologies/elevator.yaml")
    var refused = 0
    for index in text.indices {
      let (head, tail) = (Array(text[..<index]), Array(text[index...]))
      let variants: [[UInt8]] = [
        head, head + [0xFF] + tail, head + [0x09] + tail, head + tail.dropFirst(),
      ]
      for garbled in variants {
        do throws(TopologyErrors) {
          _ = try TopologyReader.read(text: garbled, file: "f")
        } catch {
          refused += 1
          #expect(error.diagnostics.allSatisfy { $0.line > 0 && $0.column > 0 })
        }
      }
    }
    #expect(refused > text.count)
  }

  @Test("A cycle of dependencies is reported once, even if other nodes depend on it")
  func cycle() {
    let text = withNodes(
      """
      x: { machine: M, depends_on: [b] }
      a: { machine: M, depends_on: [b] }
      b: { machine: M, depends_on: [c] }
      c: { machine: M, depends_on: [a] }
      z: { machine: M, depends_on: [z] }
      """)
    let found = errors(text)
    #expect(found.count == 2)
    #expect(found[0].contains(":6:33: ") && found[0].contains("'b' -> 'c' -> 'a' -> 'b'"))
    #expect(found[1].contains(":8:33: ") && found[1].contains("'z' -> 'z'"))
  }

  @Test("A node that could not be read is not reported as unknown")
  func brokenNode() {
    let text = withNodes("door: { machine: 3 }\nb: { machine: M, depends_on: [door] }")
    #expect(errors(text).count == 1)
  }
}
