import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestNodes
import TestTraits
import Testing

@Suite("Output that is not read", .timed)
struct UnreadOutputTests {
  /// The target of a command's output.
  enum Target: CaseIterable {
    case stalledPipe, slowPipe, closedPipe, fullDisk, stoppedTerminal, unreadTerminal
  }

  /// The commands that start the topology.
  private static let starts: [[String]] = [
    ["run"], ["run", "--plain"], ["run", "--logs"], ["run", "--plain", "--logs"], ["up"],
    ["up", "--plain"], ["up", "--wait"],
  ]

  /// The clients that are attached to the topology.
  private static let clients: [[String]] = [
    ["logs", "-f"], ["monitor"], ["monitor", "--plain", "--every"], ["monitor", "--steps"],
    ["ui"], ["trace"], ["ps"],
  ]

  /// A command with its output connected to a target.
  private final class Command {
    let pid: Int32
    private var child: ChildProcess?
    private let terminal: PseudoTerminal?
    private var ends: [Int32] = []
    private let isRead: Bool

    init(_ arguments: [String], to target: Target, _ tool: CommandLineTool) throws {
      isRead = target == .slowPipe
      let environment = tool.directory.environment()
      switch target {
      case .stoppedTerminal, .unreadTerminal:
        let terminal = try PseudoTerminal(
          CommandLineTool.orchestrator, arguments, environment: environment)
        // ^S
        if target == .stoppedTerminal { terminal.type("\u{13}") }
        (self.terminal, pid) = (terminal, terminal.pid)
        return
      case .fullDisk: ends = [-1, open("/dev/full", O_WRONLY | O_CLOEXEC)]
      case .stalledPipe, .slowPipe, .closedPipe:
        ends = [-1, -1]
        try #require(pipe(&ends) == 0)
        for end in ends {
          _ = fcntl(end, F_SETFD, FD_CLOEXEC)
          _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        if target != .closedPipe { Self.fill(ends[1]) }
        _ = fcntl(ends[1], F_SETFL, 0)
      }
      let child = try ChildProcess.spawn(
        ChildCommand(
          path: CommandLineTool.orchestrator, arguments: arguments, environment: environment,
          output: .descriptor(ends[1]), deathSignal: nil))
      terminal = nil
      pid = child.pid
      self.child = child
      close(ends[1])
      if target == .closedPipe { closeRead() }
    }

    deinit {
      child?.signal(.kill)
      child?.wait()
      closeRead()
    }

    private func closeRead() {
      if let end = ends.first, end >= 0 { close(end) }
      ends = []
    }

    private static func fill(_ pipe: Int32) {
      let bytes = [UInt8](repeating: 0x2E, count: 4_096)
      while write(pipe, bytes, bytes.count) > 0 {}
    }

    /// Reads a few bytes, as a slow reader.
    func readALittle() {
      guard isRead, let end = ends.first else { return }
      var buffer = [UInt8](repeating: 0, count: 200)
      _ = Glibc.read(end, &buffer, buffer.count)
    }

    var hasEnded: Bool {
      if let terminal { return terminal.hasEnded }
      return child?.reap() != nil
    }
  }

  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      patient: { machine: Fragile, durability: process, restart: { backoff: { initial: 20ms } } }
      nurse: { machine: Button, restart: { backoff: { initial: 20ms } } }
      visitor: { machine: Fragile, restart: { backoff: { initial: 20ms } } }
    """

  /// The seeds of the runs. `UNREAD_OUTPUT_SEEDS=FIRST-LAST` selects others.
  private static let seeds: ClosedRange<UInt64> = {
    let bounds = (ProcessEnvironment.current["UNREAD_OUTPUT_SEEDS"] ?? "").split(separator: "-")
      .compactMap { UInt64($0) }
    return bounds.count == 2 && bounds[0] <= bounds[1] ? bounds[0]...bounds[1] : 0...7
  }()

  @Test(
    "A topology answers and stops although no process reads its output or its clients' output",
    arguments: seeds)
  func supervision(seed: UInt64) async throws {
    var random = SplitMix64(seed: seed)
    // Each target and each start command gets its turn.
    let target = Target.allCases[Int(seed) % Target.allCases.count]
    let start = Self.starts[Int(seed / 2) % Self.starts.count]
    let clients = (0..<2).map { _ in
      (
        verb: Self.clients.randomElement(using: &random) ?? [],
        target: Target.allCases.randomElement(using: &random) ?? .stalledPipe
      )
    }
    let victim = ["patient", "nurse", "visitor"].randomElement(using: &random) ?? "nurse"
    let lines = Int.random(in: 1...3_000, using: &random)
    try await CommandLineTool.launching { tool in
      let ward = try DetachedTopology(tool: tool, name: "ward", yaml: Self.ward)
      let file = tool.directory.path + "/ward.yaml"
      let what = "seed \(seed): \(start) to \(target), \(clients), kill of \(victim)"
      let command = try Command([start[0], file] + start.dropFirst(), to: target, tool)
      let directories = try ward.directories
      let orchestrator = try #require(
        try await poll(within: .seconds(20)) { RunningTopology.find(directories)?.process },
        "\(what)")
      let isBound: Bool? = try await poll(within: .seconds(20)) {
        FileSystem.exists(directories.runtime + "/control") ? true : nil
      }
      try #require(isBound == true, "\(what)")
      try await ward.await("\(what): all run") { $0.nodes.allSatisfy(\.isRunning) }
      let watching = try clients.map { client in
        let isTerminal = client.target == .stoppedTerminal || client.target == .unreadTerminal
        // The screen requires a terminal.
        return try Command(
          client.verb, to: client.verb == ["ui"] && !isTerminal ? .stoppedTerminal : client.target,
          tool)
      }
      let client = try ward.client()
      defer { client.close() }
      for _ in 0..<3 {
        try await client.send("patient", Fragile.Event.shout(lines: lines), timeout: .seconds(300))
        for command in [command] + watching { command.readALittle() }
      }
      for round in 1...2 {
        let pid = try #require(try await ward.pids()[victim])
        #expect(kill(pid, SIGKILL) == 0)
        try await ward.await("\(what): '\(victim)' is started again, \(round)") {
          let node = $0[node: victim]
          return node?.isRunning == true && node?.pid != pid
        }
        for command in [command] + watching { command.readALittle() }
      }
      orchestrator.signal(.terminate)
      let isDown: Bool? = try await poll(within: .seconds(20)) {
        orchestrator.hasEnded && RunningTopology.find(directories) == nil ? true : nil
      }
      #expect(isDown == true, "\(what): it does not end by SIGTERM")
      #expect(tool.directory.leftoverPaths.isEmpty)
    }
  }
}
