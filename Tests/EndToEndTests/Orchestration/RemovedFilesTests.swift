import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Files that are removed under a running topology", .timed)
struct RemovedFilesTests {
  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      patient: { machine: Fragile, durability: power, restart: { backoff: { initial: 20ms } } }
      nurse: { machine: Button }
    """

  @Test("A removed lock file is created again, so the topology is found and does not run twice")
  func lock() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let directories = try ward.directories
      let pid = try #require(RunningTopology.find(directories)?.pid)
      #expect(unlink(directories.lockFile) == 0)
      let isBack: Bool? = try await poll(within: .seconds(20)) {
        RunningTopology.find(directories)?.pid == pid ? true : nil
      }
      #expect(isBack == true)
      let second = try await ward.run("run", "ward.yaml", code: 1)
      #expect(second.error.contains("(pid \(pid)"), "\(second)")
      try await ward.run("down")
      #expect(ward.tool.directory.leftoverPaths.isEmpty)
    }
  }

  @Test(
    "A topology whose directory was removed stops with the reason and can be started again",
    arguments: [false, true])
  func directory(allEnd: Bool) async throws {
    // If nodes are not restarted, all may have failed before the orchestrator checks the directory.
    let ward =
      allEnd
      ? Self.ward.replacing(
        "restart: { backoff: { initial: 20ms } }", with: "restart: { policy: never }"
      )
      .replacing("machine: Button", with: "machine: Button, restart: { policy: never }") : Self.ward
    try await DetachedTopology.with(ward) { ward in
      let directories = try ward.directories
      let client = try ward.client()
      defer { client.close() }
      try await client.send("patient", Fragile.Event.touch)
      let pids = try await ward.pids().values
      FileSystem.removeTree(directories.runtime)
      if allEnd { for pid in pids { kill(pid, SIGKILL) } }
      let isDown: Bool? = try await poll(within: .seconds(20)) {
        ward.alive(pids).isEmpty ? true : nil
      }
      #expect(isDown == true)
      let line =
        "ward: stopped: the directory '\(directories.runtime)' was removed while the topology was "
        + "running"
      let isTold: Bool? = try await poll(within: .seconds(20)) {
        try ward.log("orchestrator").contains { $0.contains(line) } ? true : nil
      }
      let log = try ward.log("orchestrator")
      #expect(isTold == true, "\(log)")
      try await ward.up()
      try await ward.await("what was recorded is there") {
        $0[node: "patient"]?.status?.state == ["well": ["steps": 1]]
      }
    }
  }

  @Test(
    "An event that waits while the runtime directory is removed is applied once by the next run")
  func waitingEvent() async throws {
    let ward = Self.ward.replacing(
      "backoff: { initial: 20ms } }",
      with: "backoff: { initial: 1h, max: 1h } }, "
        + "environment: { PIPERUNTIME_FAILPOINTS: \"patient:reply.before=crash@1/1\" }")
    try await DetachedTopology.with(ward) { ward in
      let send = try ward.tool.start(["send", "patient", "touch", "--timeout", "2m"])
      defer { send.signal(.kill) }
      try await ward.await("the event has ended its node's first process") {
        $0[node: "patient"]?.phase == "backing off"
      }
      FileSystem.removeTree(try ward.directories.runtime)
      let hasStopped: Bool? = try await poll(within: .seconds(20)) {
        try ward.log("orchestrator").contains { $0.contains("ward: stopped: the directory") }
          ? true : nil
      }
      #expect(hasStopped == true)
      try await ward.up()
      try await ward.end(of: send, code: 0)
      let state = try await ward.directory()[node: "patient"]?.status?.state
      #expect(state == ["well": ["steps": 1]])
    }
  }

  @Test(
    "After a run's directory is removed, a second run opens journals only after the first run ends"
  )
  func second() async throws {
    // The new nodes are restarted until the former nodes have ended. The former nodes check their
    // directory once a second.
    let ward = Self.ward.replacing("backoff:", with: "max: 100, backoff:")
      .replacing("machine: Button", with: "machine: Button, restart: { max: 100 }")
    try await DetachedTopology.with(ward) { ward in
      let directories = try ward.directories
      let former = try await ward.pids()
      FileSystem.removeTree(directories.runtime)
      try await ward.up()
      let pids = try await ward.await("the patient runs") { $0.isRunning }.nodes.map(\.pid)
      let isAlone: Bool? = try await poll(within: .seconds(20)) {
        ward.alive(former.values).isEmpty ? true : nil
      }
      #expect(isAlone == true)
      #expect(pids.allSatisfy { pid in pid.map { !former.values.contains($0) } ?? false })
      // The former orchestrator does not remove files of the new one.
      #expect(RunningTopology.find(directories) != nil)
    }
  }

  @Test(
    "Process records and keys are written again after a cleaner removed them",
    arguments: [nil, DeployedTopologyTests.lab])
  func cleaner(deployment: String?) async throws {
    let yaml = deployment == nil ? Self.ward : DeployedTopologyTests.numbers
    try await DetachedTopology.with(yaml, deployment: deployment) { ward in
      let directories = try ward.directories
      let pids = try await ward.pids()
      for _ in 0..<2 {
        // After the second lock appears, the orchestrator has checked all files.
        for _ in 0..<2 {
          #expect(unlink(directories.lockFile) == 0)
          let isFound: Bool? = try await poll(within: .seconds(20)) {
            RunningTopology.find(directories) != nil ? true : nil
          }
          #expect(isFound == true)
        }
        let files = Self.files(in: directories.runtime)
        #expect(files.count >= pids.count)
        for file in files { unlink(file) }
        let areBack: Bool? = try await poll(within: .seconds(20)) {
          Self.files(in: directories.runtime) == files ? true : nil
        }
        #expect(areBack == true, "\(Self.files(in: directories.runtime)), not \(files)")
      }
      #expect(try ward.logs().contains("were removed by another program and have been restored: "))
      try await ward.killOrchestrator()
      #expect(try Set(Survivor.all(in: directories).map(\.node)) == Set(pids.keys))
      let up = try await ward.up()
      #expect(up.contains("\(pids.count) nodes adopted"), "\(up)")
      #expect(try await ward.pids() == pids)
      try await ward.killOrchestrator()
      let listed = try await ward.run("ls")
      #expect(
        listed.output.contains("orphaned: \(pids.count) nodes "), "\(listed)")
      try await ward.run("down")
      #expect(ward.alive(pids.values).isEmpty)
      #expect(ward.tool.directory.leftoverPaths.isEmpty)
    }
  }

  /// Returns the regular files of a running topology, except its lock.
  private static func files(in directory: String) -> [String] {
    FileSystem.entryNames(of: directory).filter { $0 != "lock" }.map { directory + "/" + $0 }
      .filter { FileIdentity($0)?.isRegularFile == true }
  }

  @Test("The directories of a running topology are locked, so systemd-tmpfiles does not clean them")
  func locked() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let directories = try ward.directories
      for path in [directories.runtime, directories.state] {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { close(descriptor) }
        #expect(flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK, "\(path)")
      }
    }
  }

  @Test("If a node's sockets are removed, the report says what to do")
  func sockets() async throws {
    try await withTopology(yaml: Self.ward) { ward in
      let inbox = try await ward.status("nurse").inbox.dropFirst("ipc://".count)
      #expect(unlink(String(inbox)) == 0)
      let line = "the sockets of node 'nurse' were removed"
      let isTold = try await ward.orchestrator.waitForOutput(containing: line, within: .seconds(20))
      #expect(isTold, "\(ward.orchestrator.errorText)")
      try await ward.restart("nurse")
      try await ward.send("nurse", Button.Event.press)
    }
  }

  @Test(
    "A removed journal is written again without losing an accepted event, even after a kill",
    arguments: ["", ".sqlite", "-wal", ".step"])
  func journal(what: String) async throws {
    try await withTopology(yaml: Self.ward) { ward in
      for _ in 1...5 { try await ward.send("patient", Fragile.Event.touch) }
      let journal = ward.directories.journal(of: "patient")
      switch what {
      case "": FileSystem.removeTree(ward.directories.journals)
      case ".sqlite": #expect(unlink(journal) == 0)
      case "-wal": #expect(unlink(journal) == 0 && unlink(journal + "-wal") == 0)
      default: #expect(unlink(journal + what) == 0)
      }
      // This event is accepted after the removal, and before the node has noticed it.
      try await ward.send("patient", Fragile.Event.touch)
      try await ward.expectStatus(of: "patient", "start 2") {
        $0.isRunning && $0.incarnation == 2 && $0.status?.state == ["well": ["steps": 6]]
      }
      try await ward.expectLog(
        "patient",
        contains: "was removed while the node was running; the node has written the journal again")
      try await ward.send("patient", Fragile.Event.touch)
      try await ward.kill("patient")
      try await ward.expect("patient", is: ["well": ["steps": 7]])
    }
  }

  @Test("A node without its journal's '.step' file starts after a stop, and fails after a kill")
  func startWithoutLog() async throws {
    let ward = Self.ward.replacing(
      "durability: power, restart: {", with: "restart: { policy: never,")
    try await withTopology(yaml: ward) { ward in
      try await ward.send("patient", Fragile.Event.touch)
      try await ward.stop("patient")
      let log = ward.directories.journal(of: "patient") + ".step"
      #expect(unlink(log) == 0)
      try await ward.start("patient")
      try await ward.expect("patient", is: ["well": ["steps": 1]])
      try await ward.kill("patient")
      try await ward.expectStatus(of: "patient", "the end") { $0.pid == nil }
      #expect(unlink(log) == 0)
      await #expect(throws: TopologyClientError.self) { try await ward.start("patient") }
      let reason = try await ward.status("patient").reason
      #expect(
        reason?.contains("the '.step' file was removed") == true, "\(reason ?? "none")")
    }
  }

  @Test("A node that starts without its former journal reports the loss or fails")
  func startWithoutJournal() async throws {
    try await withTopology(yaml: Self.ward) { ward in
      try await ward.send("patient", Fragile.Event.touch)
      try await ward.stop("patient")
      let journal = ward.directories.journal(of: "patient")
      for suffix in ["", "-wal", "-shm"] { unlink(journal + suffix) }
      await #expect(throws: TopologyClientError.self) { try await ward.start("patient") }
      let reason = try await ward.status("patient").reason
      #expect(reason?.contains("'\(journal)'") == true, "\(reason ?? "none")")

      #expect(unlink(journal + ".step") == 0)
      try await ward.start("patient")
      try await ward.expectLog(
        "patient", contains: "incarnation 3 found no journal '\(journal)'")
      try await ward.expectStatus(of: "patient", "a new state") {
        $0.status?.state == ["well": ["steps": 0]]
      }
    }
  }
}
