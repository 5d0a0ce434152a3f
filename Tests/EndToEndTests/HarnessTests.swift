import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The test harness for topologies", .timed)
struct HarnessTests {
  private static let button = """
    topology: button
    program: TestNodes
    nodes: { button: { machine: Button }, gate: { machine: Gate } }
    """

  private struct BodyError: Error {}

  /// Returns the failure with which a test of the topology ends.
  private func failure(
    _ yaml: String = button, _ body: (TopologyHarness) async throws -> Void
  ) async throws -> TopologyExpectationFailure {
    try await #require(throws: TopologyExpectationFailure.self) {
      try await FailureReporter.$areFailuresThrown.withValue(true) {
        try await withTopology(yaml: yaml, body)
      }
    }
  }

  @Test(
    "The failure of an unmet expectation contains the expectation, the seen states and the logs")
  func unmetExpectation() async throws {
    let failure = try await failure { topology in
      try await topology.send("button", Button.Event.press)
      try await topology.send("button", Button.Event.press)
      try await topology.expect(
        "button", Button.State.pressed(times: 3), within: .milliseconds(200))
    }
    #expect(
      failure.expectation
        == "timed out: node 'button' was not pressed(times: 3) within 200 ms")
    #expect(failure.recordedStates.map(\.version) == [0, 1, 2])
    let text = failure.description
    for part in [
      failure.expectation, "states of 'button':", "1.2 {\"pressed\":{\"times\":2}} (request)",
      "button is running, incarnation 1", "log of 'gate':", "note connected", "2 nodes running",
    ] {
      #expect(text.contains(part), "\(text)")
    }
  }

  @Test("An error that a test throws is kept and reported with the state of the topology")
  func error() async throws {
    let failure = try await failure { _ in throw BodyError() }
    #expect(failure.cause is BodyError)
    #expect(failure.description.contains("gate is running"))
  }

  @Test("An expectation is met only by states after the last sent event or expected state")
  func whatCounts() async throws {
    try await withTopology(yaml: Self.button) { topology in
      try await topology.expect("gate", is: "shut")
      try await topology.expect("gate", is: ["shut": ["passed": 0]])
      try await topology.send("gate", Gate.Event.open)
      await #expect(throws: TopologyExpectationFailure.self) {
        try await topology.expect("gate", is: "shut", within: .milliseconds(50))
      }
      try await topology.expect("gate", is: "open")
      let count = try await topology.expect("gate", "open") { (state: Gate.State) in
        if case .open = state { true } else { false }
      }
      #expect(count == .open(passed: 0))
      // Expectations of other nodes are independent.
      try await topology.expect("button", is: "pressed")
    }
  }

  @Test("An expected sequence allows other states in between, unless it is exact")
  func sequences() async throws {
    func times(_ counts: Int...) -> [StatePattern] {
      counts.map { .state(Button.State.pressed(times: $0)) }
    }
    try await withTopology(yaml: Self.button) { topology in
      let client = try TopologyClient(
        topology: topology.topology, control: topology.control,
        answerTimeout: TopologyHarness.clientTimeout)
      defer { client.close() }
      for _ in 1...6 { try await client.send("button", Button.Event.press) }
      let found = try await topology.expect("button", inOrder: times(0, 2, 3))
      #expect(found.map(\.version) == [0, 2, 3])
      try await topology.expect("button", exactly: times(3, 4, 5))
      await #expect(throws: TopologyExpectationFailure.self) {
        try await topology.expect("button", exactly: times(5, 7), within: .milliseconds(50))
      }
      await #expect(throws: TopologyExpectationFailure.self) {
        try await topology.expect("button", inOrder: times(6, 5), within: .milliseconds(50))
      }
      try await topology.expect("button", exactly: times(5, 6))
    }
  }

  @Test("An expectation about an unknown node fails at once")
  func unknownNode() async throws {
    try await withTopology(yaml: Self.button) { topology in
      await #expect(throws: TopologyClientError.self) {
        try await topology.expect("buton", is: "pressed", within: .seconds(60))
      }
    }
  }

  @Test("A topology that does not start fails its test with the orchestrator's output")
  func doesNotStart() async throws {
    let failure = try await failure(Self.button.replacing("machine: Gate", with: "machine: Gat")) {
      _ in Issue.record("its body runs")
    }
    #expect(failure.expectation == "topology 'button' did not start: exit code 2")
    #expect(failure.description.contains("[unknown-machine]"))
  }

  @Test("A test fails if its topology ends before the test, even if all expectations are met")
  func endsByItself() async throws {
    let required = Self.button.replacing(
      "machine: Gate", with: "machine: Gate, required: true, restart: { policy: never }")
    let failure = try await failure(required) { topology in
      try await topology.kill("gate")
      _ = try await topology.orchestrator.waitForExit(within: .seconds(10))
    }
    #expect(failure.expectation == "the topology ended before the test: exit code 1")
    #expect(failure.description.contains("required node 'gate' failed"))
  }

  @Test(
    "Topologies with the same name run side by side and leave neither processes nor files behind")
  func isolation() async throws {
    let left = try await withThrowingTaskGroup(of: TestDirectory.self) { group in
      for presses in 1...3 {
        group.addTask {
          try await withTopology(yaml: Self.button) { topology in
            for _ in 1...presses { try await topology.send("button", Button.Event.press) }
            try await topology.expect("button", Button.State.pressed(times: presses))
            #expect(topology.directory.processes.count == 3)
            // The lock, the orchestrator's socket, and for each node two sockets and a record.
            #expect(topology.directory.leftoverPaths.count == 8)
            return topology.directory
          }
        }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(Set(left.map(\.path)).count == 3)
    for directory in left {
      #expect(directory.processes.isEmpty)
      #expect(!FileSystem.exists(directory.path))
    }
  }

  @Test("A cancelled test stops its topology")
  func cancellation() async throws {
    let (directories, continuation) = AsyncStream.makeStream(of: TestDirectory.self)
    let task = Task {
      try await withTopology(yaml: Self.button) { topology in
        continuation.yield(topology.directory)
        try await topology.expect("gate", is: "open", within: .seconds(600))
      }
    }
    var iterator = directories.makeAsyncIterator()
    let directory = try #require(await iterator.next())
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(directory.processes.isEmpty)
    #expect(!FileSystem.exists(directory.path))
  }

  @Test("A test process that crashes leaves neither processes nor files behind")
  func crash() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let file = try tool.directory.write(Self.button, to: "button.yaml")
    let test = try LaunchedProgram(
      CommandLineTool.products + "/CrashingTest", [file],
      environment: ProcessEnvironment.current)
    let end = try await test.waitForExit(within: .seconds(20))
    #expect(end == .signalled(number: SIGKILL))
    let left = TestDirectory(
      existing: String(test.outputText.prefix { $0 != "\n" }))
    #expect(left.path.hasPrefix("/tmp/prt-"), "\(test.errorText)")
    let isGone = try await poll(every: .milliseconds(20), within: .seconds(20)) {
      !FileSystem.exists(left.path) && left.processes.isEmpty ? true : nil
    }
    #expect(isGone == true, "\(left.processes)")
  }

  @Test("A program that a test leaves in the background ends with the test process")
  func background() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let guardian = try directory.killAfterCrash()
    let sleeper = try LaunchedProgram(
      "/bin/sleep", ["600"], environment: directory.environment())
    let other = try LaunchedProgram("/bin/sleep", ["600"], environment: ["PATH": "/bin"])
    // Simulates the end of this process.
    guardian.closeInput()
    let end = try await sleeper.waitForExit(within: .seconds(20))
    #expect(end == .signalled(number: SIGKILL))
    #expect(try await guardian.waitForExit(within: .seconds(20)) == .exited(code: 0))
    #expect(!FileSystem.exists(directory.path))
    #expect(other.exit == nil)
  }

  @Test("Programs are found in the directories that the test names")
  func searchPath() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let path = tool.directory.path
    #expect(symlink(CommandLineTool.products + "/TestNodes", path + "/elsewhere") == 0)
    var options = TopologyHarness.Options()
    options.searchPath = [path]
    options.environment = ["COLOUR": "blue"]
    let elsewhere = Self.button.replacing("program: TestNodes", with: "program: elsewhere")
    try await withTopology(yaml: elsewhere, options: options) { topology in
      let button = try await topology.status("button")
      #expect(button.program == path + "/elsewhere")
      #expect(topology.directory.processes.count == 3)
    }
  }

  @Test("A topology created in code runs like a topology from a file, on any actor")
  @MainActor
  func topologyValue() async throws {
    let topology = Topology(
      name: "code", program: "TestNodes", nodes: [.machine("Button", name: "button")])
    var presses = 0
    try await withTopology(topology) { topology in
      presses += 1
      let outcome = try await topology.send("button", "press")
      #expect(outcome == .accepted(version: 1, state: ["pressed": ["times": 1]]))
    }
    #expect(presses == 1)
  }
}
