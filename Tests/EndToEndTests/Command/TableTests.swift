import Glibc
import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("Tables in the command's output", .timed)
struct TableTests {
  @Test(
    "A narrow table first cuts columns, starting with the last, and then drops columns by rank",
    arguments: [
      (100, [10, 20, 5, 30]), (71, [10, 20, 5, 30]), (70, [10, 20, 5, 29]), (61, [10, 20, 5, 20]),
      (60, [10, 19, 5, 20]), (53, [10, 12, 5, 20]), (52, [10, 18, nil, 20]),
      (46, [10, 12, nil, 20]), (45, [nil, 20, nil, 23]), (34, [nil, 12, nil, 20]),
      // The table is still too wide.
      (10, [nil, 12, nil, 20]),
    ] as [(Int, [Int?])])
  func layout(width: Int, widths: [Int?]) {
    let columns = [
      ColumnLayout.Column(preferredWidth: 10, dropOrder: 2),
      ColumnLayout.Column(preferredWidth: 20, minimumWidth: 12),
      ColumnLayout.Column(preferredWidth: 5, dropOrder: 1),
      ColumnLayout.Column(preferredWidth: 30, minimumWidth: 20),
    ]
    #expect(ColumnLayout(columns, in: width).widths == widths)
  }

  @Test("Without a width limit, every column has its full width")
  func unlimited() {
    let column = ColumnLayout.Column(preferredWidth: 300, minimumWidth: 5, dropOrder: 1)
    #expect(ColumnLayout([column, column]).widths == [300, 300])
  }

  @Test("A long path is cut at its start")
  func path() {
    var table = Table(.init("NAME"), .init("FILE", minimumWidth: 8, keepsEnd: true))
    table.add("lift", "/home/me/topologies/lift.yaml")
    #expect(table.lines(width: 16) == ["NAME  FILE", "lift  …lift.yaml"])
    #expect(table.lines()[1] == "lift  /home/me/topologies/lift.yaml")
  }

  // MARK: Nodes

  private let rows = [
    NodeRow(
      node: "passengers", phase: "running", state: "boarding(persons: 8, round: 5)",
      process: NodeRow.Process(
        pid: 12345, uptime: .seconds(75), events: 120, restarts: 1,
        usage: ProcessUsage(cpu: .milliseconds(1500), memoryByteCount: 20_149_999)),
      durability: .process, version: 118),
    NodeRow(node: "door", phase: "failed", reason: "exit code 3", durability: .process),
  ]

  @Test(
    "A narrow 'ps' drops CPU and memory first, then pid and restarts, and never the state",
    arguments: [
      (125, "NODE STATUS PID UPTIME EVENTS RESTARTS CPU MEMORY DURABILITY VERSION STATE"),
      (124, "NODE STATUS PID UPTIME EVENTS RESTARTS MEMORY DURABILITY VERSION STATE"),
      (118, "NODE STATUS PID UPTIME EVENTS RESTARTS MEMORY DURABILITY VERSION STATE"),
      (117, "NODE STATUS PID UPTIME EVENTS RESTARTS DURABILITY VERSION STATE"),
      (108, "NODE STATUS UPTIME EVENTS RESTARTS DURABILITY VERSION STATE"),
      (101, "NODE STATUS UPTIME EVENTS DURABILITY VERSION STATE"),
      (91, "NODE STATUS UPTIME EVENTS VERSION STATE"),
      (80, "NODE STATUS UPTIME EVENTS VERSION STATE"), (79, "NODE STATUS EVENTS VERSION STATE"),
      (67, "NODE STATUS EVENTS STATE"), (60, "NODE STATUS EVENTS STATE"),
      (58, "NODE STATUS STATE"), (40, "NODE STATUS STATE"),
    ])
  func nodes(width: Int, headings: String) {
    let lines = NodeRow.table(rows).lines(width: width)
    #expect(lines[0].split(separator: " ") == headings.split(separator: " "))
    #expect(lines.allSatisfy { $0.displayWidth <= width })
    #expect(width < 51 || lines[1].hasSuffix("  boarding(persons: 8, round: 5)"))
  }

  @Test("A wide 'ps' shows all figures of a process")
  func figures() {
    #expect(
      NodeRow.table(rows).lines() == [
        "NODE        STATUS     PID      UPTIME  EVENTS  RESTARTS    CPU   MEMORY  DURABILITY  "
          + "VERSION  STATE",
        "passengers  running  12345  1 min 15 s     120         1  1.5 s  20.1 MB  process     "
          + "    118  boarding(persons: 8, round: 5)",
        "door        failed       -           -       0         0      -        -  process     "
          + "      -  exit code 3",
      ])
  }

  @Test("A long failure reason is cut in tables and complete in 'status'")
  func reason() {
    let reason = String(repeating: "the journal is torn; ", count: 10)
    var node = information("door", kind: .machine)
    node.reason = reason
    #expect(node.stateText == reason)
    let line = NodeRow.table([node].rows(now: 0)).lines()[1]
    #expect(line.hasSuffix("  " + reason.prefix(59) + "…"))
  }

  private func information(
    _ name: String, kind: NodeInformation.Kind, inbox: String? = nil
  ) -> NodeInformation {
    var node = NodeInformation(
      name: name, kind: kind, hosts: nil, program: "nodes", phase: "failed", isRunning: false,
      inbox: inbox ?? name, feed: name)
    node.pid = 7
    return node
  }

  @Test("CPU and memory are shown only once for composites that share a process")
  func composites() {
    let usage = ProcessUsage(cpu: .seconds(1), memoryByteCount: 5_000_000)
    let rows = [
      information("fork", kind: .machine), information("seat1", kind: .composite),
      information("seat2", kind: .composite, inbox: "seat1"),
      information("bar", kind: .composite),
    ].rows(now: 0, usage: [7: usage])
    #expect(rows.map(\.process?.pid) == [7, 7, nil, 7])
    #expect(rows.map(\.process?.usage) == [usage, usage, nil, usage])
    #expect(rows.map { $0.process == nil } == [false, false, true, false])
    let cells = NodeRow.table(rows).lines()[3].split(separator: " ")
    #expect(cells == ["seat2", "failed", "-", "-", "-", "-", "-", "-", "none", "-", "-"])
  }

  // MARK: Processes

  @Test(
    "CPU time and memory are read from /proc, whatever the process name contains",
    arguments: [
      (
        "7 (nodes) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 9 0 100 99 5000 1 2\n",
        ProcessUsage(cpu: .seconds(2), memoryByteCount: 20_480_000)
      ),
      (
        "7 (a) b) R (x) R 1 7 7 0 -1 4194560 1 0 0 0 1 0 0 0 20 0 9 0 100 99 1 1 2\n",
        ProcessUsage(cpu: .milliseconds(10), memoryByteCount: 4_096)
      ),
      ("7 (nodes) Z 1 7", nil), ("", nil), ("7 nodes S", nil),
    ] as [(String, ProcessUsage?)])
  func usage(stat: String, usage: ProcessUsage?) {
    #expect(ProcessUsage(stat: stat, ticksPerSecond: 100, pageByteCount: 4_096) == usage)
  }

  @Test("The test's own process has CPU and memory figures, and a missing process has none")
  func ownUsage() throws {
    let own = try #require(ProcessUsage(pid: getpid()))
    #expect(own.memoryByteCount > 1_000_000)
    #expect(own.cpu > .zero)
    #expect(ProcessUsage(pid: -1) == nil)
  }

  @Test(
    "Memory is shown in megabytes",
    arguments: [(0, "0.0 MB"), (49_999, "0.0 MB"), (50_000, "0.1 MB"), (20_149_999, "20.1 MB")])
  func memory(byteCount: Int, text: String) {
    #expect(ProcessUsage(cpu: .zero, memoryByteCount: byteCount).memoryText == text)
  }
}

@Suite("The first states that 'monitor' shows", .timed)
struct FirstStatesTests {
  private func change(_ node: String, _ version: UInt64 = 0) -> StateChange {
    StateChange(
      node: node, incarnation: 1, version: version, time: 0, cause: "start", state: "on")
  }

  private func shown(_ changes: [StateChange]) -> [String] {
    changes.map { "\($0.node)\($0.version)" }
  }

  @Test("The first states are shown in the order of the nodes, and later changes follow them")
  func order() {
    var first = InitialStateCollector(of: ["a", "b", "c"], reportingNodes: ["a", "b", "c"])
    #expect(first.changesToWrite(after: change("c")) == [])
    #expect(first.changesToWrite(after: change("b")) == [])
    #expect(first.changesToWrite(after: change("c", 1)) == [])
    #expect(first.isCollecting)
    #expect(shown(first.changesToWrite(after: change("a"))) == ["a0", "b0", "c0", "c1"])
    #expect(!first.isCollecting)
    #expect(shown(first.changesToWrite(after: change("b", 1))) == ["b1"])
    #expect(first.stopCollecting() == [])
  }

  @Test("After the time limit, the first states are shown without the states of silent nodes")
  func silent() {
    var first = InitialStateCollector(of: ["a", "b", "c"], reportingNodes: ["a", "b", "c"])
    #expect(first.changesToWrite(after: change("c")) == [])
    #expect(first.changesToWrite(after: change("a")) == [])
    #expect(shown(first.stopCollecting()) == ["a0", "c0"])
    #expect(!first.isCollecting)
    #expect(shown(first.changesToWrite(after: change("b"))) == ["b0"])
  }

  @Test("'monitor' does not wait for first states when no node runs")
  func none() {
    var first = InitialStateCollector(of: ["a", "b"], reportingNodes: [])
    #expect(!first.isCollecting)
    #expect(shown(first.changesToWrite(after: change("b"))) == ["b0"])
  }
}
