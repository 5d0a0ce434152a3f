import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Journals that cannot be written", .timed, .serialized)
struct JournalPlaceTests {
  /// An obstacle to the use of a stopped node's journal.
  struct Blocker: Sendable, CustomTestStringConvertible {
    var what: String
    /// Creates the obstacle, and returns a function that removes it.
    var put: @Sendable (_ journals: String) throws -> @Sendable () -> Void
    var says: String
    var testDescription: String { what }

    /// Returns an obstacle that replaces the directory.
    static func replaced(
      _ what: String, _ says: String, _ put: @escaping @Sendable (String) -> Void
    )
      -> Blocker
    {
      Blocker(
        what: what,
        put: { journals in
          try #require(rename(journals, journals + ".away") == 0)
          put(journals)
          return {
            unlink(journals)
            rename(journals + ".away", journals)
          }
        }, says: says)
    }
  }

  static let blockers: [Blocker] = [
    .replaced("a directory in which no files can be created", "Permission denied") {
      symlink("/sys", $0)
    },
    .replaced("a file in place of the directory", "Not a directory") {
      close(creat($0, 0o600))
    },
    .replaced("no directory", "No such file or directory") { _ in },
    Blocker(
      what: "a directory in place of the '.step' file",
      put: { journals in
        let mark = journals + "/gate.sqlite.step"
        try #require(rename(mark, mark + ".away") == 0 && mkdir(mark, 0o700) == 0)
        return {
          rmdir(mark)
          rename(mark + ".away", mark)
        }
      }, says: "Is a directory"),
  ]

  @Test(
    "A node fails at once, with file and reason, if its journal directory cannot be written",
    arguments: blockers)
  func unwritable(obstacle: Blocker) async throws {
    var visitors = Visitors.topology()
    // The button has no journal, because the obstacle affects each running node with a journal.
    visitors.nodes[0].durability = .volatile
    try await withTopology(visitors) { topology in
      try await topology.expectStatus(of: "gate", "a letter") { $0.status?.deadLetters == 1 }
      try await topology.send("gate", Gate.Event.open)
      try await topology.stop("gate")
      let file = try JournalFile(of: "gate", in: topology)
      let remove = try obstacle.put(FileSystem.parentDirectory(of: file.path))
      defer { remove() }
      do {
        try await topology.start("gate")
        Issue.record("it runs")
      } catch TopologyClientError.failed(let reason) {
        #expect(reason.contains("'\(file.path)"), "\(reason)")
        #expect(reason.contains(obstacle.says), "\(reason)")
      }
      #expect(try await topology.status("gate").incarnation == 2)
      remove()
      try await topology.start("gate")
      try await topology.expectStatus(of: "gate", "its state") {
        $0.status?.state == ["open": ["passed": 0]]
      }
    }
  }

  @Test("If the journal has no space for a record, the node ends, and no event is lost or repeated")
  func failingRecord() async throws {
    var options = TopologyHarness.Options()
    // Fails a later record: the first record belongs to the start.
    options.environment = ["PIPERUNTIME_FAILPOINTS": "button:record.error=error@4/1"]
    try await withTopology(Visitors.topology(), options: options) { topology in
      try await topology.expectStatus(of: "gate", "a letter") { $0.status?.deadLetters == 1 }
      try await topology.send("gate", Gate.Event.open)
      var versions: [UInt64] = []
      for _ in 1...6 {
        if case .accepted(let version, _) = try await topology.send("button", Button.Event.press) {
          versions.append(version)
        }
      }
      #expect(versions == [1, 2, 3, 4, 5, 6])
      #expect(try await topology.status("button").incarnation == 2)
      let file = try JournalFile(of: "button", in: topology)
      try await topology.expectLog(
        "button", contains: "error: \(JournalError.full(path: file.path))")
      try await topology.expectLog("button", contains: "failpoint record.error")
      // The event of the button's start came before the gate was opened.
      try await topology.expectStatus(of: "gate", "all visitors") {
        $0.status?.ins.first?.applied == 7
      }
      try await topology.expect("gate", Gate.State.open(passed: 6))
    }
  }

  /// Mounts an empty file system of a fixed size.
  /// - Returns: Whether the mount was permitted.
  private static func mountSmall(_ path: String, _ size: String) -> Bool {
    mount("tmpfs", path, "tmpfs", 0, "size=\(size),mode=700") == 0
  }

  static let canMount: Bool = {
    guard let directory = try? TestDirectory() else { return false }
    defer { directory.remove() }
    guard mountSmall(directory.path, "64k") else { return false }
    umount2(directory.path, Int32(MNT_DETACH))
    return true
  }()

  @Test(
    "A full disk does not use up a node's restarts, and the node loses no event",
    .enabled(if: canMount, "mounting a small file system is not permitted here"))
  func fullDisk() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let directories = try RuntimeDirectories(topology: "bulk", roots: tool.directory.roots)
    try FileSystem.makeDirectories(directories.journals, mode: 0o700)
    try #require(Self.mountSmall(directories.journals, "2m"))
    defer { umount2(directories.journals, Int32(MNT_DETACH)) }
    try tool.directory.write(
      """
      topology: bulk
      program: TestNodes
      nodes:
        blob:
          machine: Blob
          restart: { max: 2, backoff: { initial: 10ms, max: 20ms } }
        button: { machine: Button, durability: none }
      """, to: "bulk.yaml")
    try await tool.run("up", "--wait", "bulk.yaml", code: 0)
    // Sends large states until one does not fit on the disk. The record after a small state
    // contains the complete large state.
    var taken = 0
    var last: CommandLineTool.Result?
    while taken < 80 {
      let event =
        taken.isMultiple(of: 2)
        ? "{\"grow\":{\"byteCount\":\(100_000 + taken)}}" : "{\"shout\":{\"byteCount\":1}}"
      let result = try await tool.run("send", "blob", event, "--timeout", "4s")
      last = result
      if result.code != 0 { break }
      taken += 1
    }
    #expect(taken > 2 && taken < 80, "\(taken)")
    #expect(last?.code == 1 || last?.code == 124, "\(last.map { "\($0)" } ?? "")")
    let path = directories.journal(of: "blob")
    // A restarted node is healthy until it receives an event again.
    let log: CommandLineTool.Result? = try await poll(
      every: .milliseconds(20), within: .seconds(40)
    ) {
      let log = try await tool.run("logs", "blob", "-n", "1000")
      let pauses = log.output.split(separator: "\n").count {
        $0.contains("\(JournalError.full(path: path)); next start in ")
      }
      if pauses > 5 { return log }
      let again = "{\"grow\":{\"byteCount\":\(100_000 + taken)}}"
      #expect(try await tool.run("send", "blob", again, "--timeout", "500ms").code != 0)
      return nil
    }
    let full = try #require(log, "it uses up its restarts").output
    #expect(full.contains("\(JournalError.full(path: path))"))
    #expect(!full.contains("given up"))
    let journal = try await tool.run("journal", "blob", "-n", "1")
    #expect(journal.output.contains("(version \(taken))"), "\(journal.error)")

    try #require(
      mount("tmpfs", directories.journals, "tmpfs", UInt(MS_REMOUNT), "size=64m") == 0)
    try await tool.run("start", "blob", code: 0)
    let again = try await tool.run(
      "send", "blob", "{\"grow\":{\"byteCount\":7}}", "-o", "json", code: 0)
    let outcome = try JSONValue(parsing: again.output.utf8)
    #expect(outcome["version"]?.integer == Int64(taken + 1))
    try await tool.run("down", code: 0)
  }

  @Test(
    "A node fails at once if another user owns its journal, and the error names the owner",
    .enabled(
      if: geteuid() == 0 && FileSystem.exists("/usr/bin/setpriv"),
      "only root can run a topology as somebody else"))
  func otherOwner() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(Visitors.topology().yaml, to: "visitors.yaml", mode: 0o644)
    try await tool.run("up", "--wait", "visitors.yaml", code: 0)
    try await tool.run("down", code: 0)
    // Everything belongs to another user now, except the gate's journal.
    let nobody: UInt32 = 65534
    let directories = try RuntimeDirectories(topology: "visitors", roots: tool.directory.roots)
    let path = directories.journal(of: "gate")
    let chowned = try tool.start(
      program: "/bin/sh",
      ["-c", "chown -R \(nobody) '\(tool.directory.path)' && chown 0 '\(path)'*"])
    #expect(try await tool.result(of: chowned).code == 0)
    let run = try tool.start(
      program: "/usr/bin/setpriv",
      [
        "--reuid=\(nobody)", "--clear-groups", CommandLineTool.orchestrator, "run", "--plain",
        "--lifeline", "visitors.yaml",
      ])
    let failed = try await poll(every: .milliseconds(10), within: .seconds(20)) {
      run.outputText.contains("gate: failed") ? true : nil
    }
    let output = run.outputText + run.errorText
    #expect(failed == true, "\(output)")
    #expect(output.contains(path), "\(output)")
    #expect(output.contains("Permission denied"), "\(output)")
    #expect(
      output.contains("the owner is user 0, and this process runs as user \(nobody)"), "\(output)")
    run.closeInput()
    _ = try await tool.result(of: run)
  }

  @Test("A node refuses a journal that a node of another orchestrator uses, and says why")
  func twoTopologies() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(
      Visitors.topology(
        restart: RestartPolicy(maximumRestarts: 1, backoff: Backoff(initial: .milliseconds(10)))
      ).yaml, to: "visitors.yaml")
    // Starts an orchestrator as in another session of the same user. The sessions share the state
    // directory, and each has a separate runtime directory.
    func start(_ runtime: String) throws -> LaunchedProgram {
      let directory = tool.directory.path + "/" + runtime
      try FileSystem.makeDirectories(directory, mode: 0o700)
      return try tool.start(
        program: "/usr/bin/env",
        [
          "-u", "PIPERUNTIME_ROOT", "XDG_RUNTIME_DIR=\(directory)",
          "XDG_STATE_HOME=\(tool.directory.path)/state", CommandLineTool.orchestrator, "run",
          "--plain", "--lifeline", "visitors.yaml",
        ])
    }
    // Without PIPERUNTIME_ROOT the stall detection does not see these processes, so the limit is a
    // fixed time.
    let limit = Duration.seconds(120)
    let first = try start("a")
    let isRunning = try await first.waitForOutput(containing: "2 nodes running", within: limit)
    #expect(isRunning, "\(first.errorText)")
    let second = try start("b")
    let failed = try await poll(every: .milliseconds(10), within: limit) {
      second.outputText.contains("gate: failed") && second.outputText.contains("button: failed")
        ? true : nil
    }
    let output = second.outputText + second.errorText
    #expect(failed == true, "\(output)")
    let inUse = "\(JournalError.locked(path: "", pid: nil))".text(after: "?")
    #expect(output.contains("gate.sqlite' ") && output.contains(inUse), "\(output)")
    // The second orchestrator cannot reset the journal, either.
    let reset = try tool.start(
      program: "/usr/bin/env",
      [
        "-u", "PIPERUNTIME_ROOT", "XDG_RUNTIME_DIR=\(tool.directory.path)/c",
        "XDG_STATE_HOME=\(tool.directory.path)/state", CommandLineTool.orchestrator, "reset",
        "--all",
      ])
    let refused = try await tool.end(of: reset, within: limit, code: 1)
    #expect(refused.error.contains("node 'button' runs as process "), "\(refused)")
    second.closeInput()
    _ = try await tool.result(of: second, within: limit)
    #expect(!first.outputText.contains("failed"))
    first.closeInput()
    #expect(try await tool.result(of: first, within: limit).code == 0)
  }
}
