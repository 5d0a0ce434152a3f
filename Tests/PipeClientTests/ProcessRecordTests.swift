import Glibc
import PipeClient
import PipeMachines
import PipeSupervision
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("Records of processes")
struct ProcessRecordTests {
  private let root: TemporaryDirectory
  private let directories: RuntimeDirectories

  init() throws {
    root = try TemporaryDirectory()
    directories = try RuntimeDirectories(topology: "lift", roots: root.roots)
    try FileSystem.makeDirectories(directories.runtime, mode: 0o700)
  }

  private func launch(
    program: String = "/bin/sh", arguments: [String] = [], environment: [String: String] = [:],
    configuration: NodeConfiguration = NodeConfiguration()
  ) -> ProcessRecord.Launch {
    ProcessRecord.Launch(
      program: program, arguments: arguments, environment: environment,
      configuration: configuration)
  }

  private func record(
    _ node: String = "door", dependencies: [String] = [], stop: Duration = .seconds(5)
  ) -> ProcessRecord {
    ProcessRecord(
      node: node, incarnation: 3, launch: launch(arguments: ["run"]), isDetached: true,
      dependencies: dependencies, stopTimeout: stop, startedAt: 17)
  }

  /// Starts a shell that holds a record, and waits for the first line of output of `script`.
  private func start(_ record: ProcessRecord, _ script: String) throws -> ChildProcess {
    let descriptor = try record.write(in: directories)
    defer { close(descriptor) }
    let child = try ChildProcess.spawn(
      ChildCommand(path: "/bin/sh", arguments: ["-c", script], record: descriptor))
    var item = pollfd(fd: child.outputDescriptor, events: Int16(POLLIN), revents: 0)
    #expect(poll(&item, 1, 300_000) == 1)
    return child
  }

  private let waits = "echo up; while :; do sleep 60; done"
  private let ignoresTermination = "trap '' TERM; echo up; while :; do sleep 0.01; done"

  @Test("A live process is found with the record of its launch")
  func survivor() throws {
    #expect(try Survivor.all(in: directories).isEmpty)
    var child = try start(record(), waits)
    defer { child.closePipes() }
    let found = try Survivor.all(in: directories)
    #expect(found.map(\.node) == ["door"])
    #expect(found.first?.record == record())
    #expect(found.first?.process.pid == child.pid)
    #expect(found.first?.process.hasEnded == false)
    child.signal(.kill, group: true)
    child.wait()
    #expect(found.first?.process.hasEnded == true)
    #expect(found.first?.process.signal(.terminate) == false)
    #expect(try Survivor.all(in: directories).isEmpty)
  }

  @Test("A child of a dead process is not mistaken for the dead process")
  func leftToChildren() throws {
    // The grandchild is in a session of its own, so that it does not end with its parent.
    var child = try start(record(), "setsid sleep 60 & echo $!; wait")
    var text = [UInt8](repeating: 0, count: 32)
    let count = read(child.outputDescriptor, &text, text.count)
    let grandchild = try #require(
      Int32(String(decoding: text[..<max(count - 1, 0)], as: UTF8.self)))
    defer { kill(grandchild, SIGKILL) }
    #expect(try Survivor.all(in: directories).count == 1)
    child.signal(.kill)
    child.wait()
    child.closePipes()
    #expect(kill(grandchild, 0) == 0)
    #expect(try Survivor.all(in: directories).isEmpty)
    // The remaining children do not prevent another start of the node, either.
    var next = try start(record(), waits)
    #expect(try Survivor.all(in: directories).first?.process.pid == next.pid)
    next.signal(.kill, group: true)
    next.wait()
    next.closePipes()
  }

  @Test("A record whose process id was reused matches no process")
  func reusedNumber() throws {
    let stat = try #require(contents(of: "/proc/self/stat"))
    var fields = stat.split(separator: " ").map(String.init)
    let own = try #require(try AdoptedProcess(statLine: Array(stat.utf8)))
    #expect(own.pid == getpid())
    // The 22nd field is the start time. A test runner's name has no spaces.
    fields[21] = "1"
    #expect(try AdoptedProcess(statLine: Array(fields.joined(separator: " ").utf8)) == nil)
    for garbage in ["", "1", "x (y) z", "0 (sh) S 1"] {
      #expect(try AdoptedProcess(statLine: Array(garbage.utf8)) == nil)
    }
  }

  private func contents(of path: String) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    return (try? FileSystem.read(descriptor)).map { String(decoding: $0, as: UTF8.self) }
  }

  @Test("If a process does not identify itself in time, the error names the process's record")
  func unsigned() throws {
    let descriptor = try record().write(in: directories)
    let path = ProcessRecord.path(of: "door", in: directories)
    #expect(throws: DirectoryError.unknownProcess(record: path)) {
      try Survivor.all(in: directories, patience: .milliseconds(20))
    }
    close(descriptor)
    #expect(try Survivor.all(in: directories).isEmpty)
  }

  @Test("Acquiring or releasing a lock keeps the files of live processes")
  func lock() throws {
    var child = try start(record(), waits)
    defer { child.closePipes() }
    for name in ["door.in", "door.feed", "motor.in", "control", "motor.process"] {
      close(open(directories.runtime + "/" + name, O_CREAT | O_WRONLY, 0o600))
    }
    let held = ["door.feed", "door.in", "door.process", "lock"]
    let lock = try TopologyLock.acquire(directories, file: "/lift.yaml")
    #expect(FileSystem.entryNames(of: directories.runtime) == held)
    #expect(OrphanedTopology.find(directories) == nil)
    lock.release()
    #expect(FileSystem.entryNames(of: directories.runtime) == held)
    let orphan = try #require(OrphanedTopology.find(directories))
    #expect(
      orphan.topologyFile == "/lift.yaml" && orphan.status == "orphaned: 1 node is still running")
    #expect(orphan.deploymentFile == nil && !orphan.isDeployed)
    #expect(orphan.upCommand == "orchestrator up /lift.yaml")
    #expect(OrphanedTopology.all(in: root.roots).map(\.name) == ["lift"])
    child.signal(.kill, group: true)
    child.wait()
    #expect(OrphanedTopology.find(directories) == nil)
    try TopologyLock.acquire(directories, file: nil).release()
    #expect(!FileSystem.isDirectory(directories.runtime))
  }

  @Test(
    "A topology's lock keeps the keys of live deployed nodes and of the orchestrator"
  )
  func deployedLock() throws {
    var deployed = record()
    deployed.launch = launch(arguments: ["run", "--inbox", "tcp://127.0.0.2:*"])
    var child = try start(deployed, waits)
    defer { child.closePipes() }
    let kept = [
      "client.key", "control.key", "control.place", "door.node.key", "door.node.place",
      "door.process", "lock",
    ]
    for name in kept + ["motor.node.key", "motor.node.place", "control"] {
      let file = open(directories.runtime + "/" + name, O_CREAT | O_WRONLY, 0o600)
      close(file)
    }
    let lock = try TopologyLock.acquire(
      directories, file: "/lift.yaml", deployment: "/lab.yaml")
    #expect(RunningTopology.find(directories)?.deploymentFile == "/lab.yaml")
    #expect(FileSystem.entryNames(of: directories.runtime).sorted() == kept)
    lock.release()
    #expect(FileSystem.entryNames(of: directories.runtime).sorted() == kept)
    let orphan = try #require(OrphanedTopology.find(directories))
    #expect(orphan.isDeployed)
    #expect(orphan.upCommand == "orchestrator up /lift.yaml --deployment /lab.yaml")
    // Does the same with a lock file that names no topology file.
    try TopologyLock.acquire(directories, file: nil).release()
    #expect(
      OrphanedTopology.find(directories)?.upCommand
        == "orchestrator up FILE --deployment DEPLOYMENT")
    child.signal(.kill, group: true)
    child.wait()
    try TopologyLock.acquire(directories, file: nil).release()
    #expect(!FileSystem.isDirectory(directories.runtime))
  }

  @Test(
    "A recorded launch with another bound address differs from the wanted launch",
    arguments: [
      ("tcp://10.0.0.7:*", "tcp://10.0.0.7:*", nil),
      ("ipc:///run/door.in", "ipc:///run/door.in", nil),
      ("tcp://10.0.0.7:*", "tcp://10.0.0.8:*", .place(wanted: "10.0.0.8")),
      ("ipc:///run/door.in", "tcp://10.0.0.8:*", .hosted),
      ("tcp://10.0.0.7:*", "ipc:///run/door.in", .hosted),
    ] as [(String, String, ProcessRecord.Difference?)])
  func place(former: String, wanted: String, expected: ProcessRecord.Difference?) {
    let launches = [former, wanted].map { launch(arguments: ["run", "--inbox", $0, "--feed", $0]) }
    #expect(launches[0].difference(from: launches[1]) == expected)
    #expect(launches[0].address == (former.hasPrefix("tcp") ? "10.0.0.7" : nil))
    #expect(launch(arguments: ["--inbox"]).address == nil)
  }

  @Test(
    "Orphaned processes end before their dependencies, and are killed if they ignore the signal")
  func order() throws {
    let note = root.path + "/ends"
    let ends = { (name: String) in
      "trap 'echo \(name) >> \(note); exit' TERM; echo up; while :; do sleep 0.01; done"
    }
    var children = [
      try start(record("a", dependencies: ["b"]), ends("a")), try start(record("b"), ends("b")),
      try start(record("c", dependencies: ["a"], stop: .milliseconds(50)), ignoresTermination),
    ]
    let survivors = try Survivor.all(in: directories)
    #expect(survivors.count == 3)
    #expect(Survivor.endProcesses(survivors, in: directories).isEmpty)
    #expect(
      children.indices.map { children[$0].wait() } == [
        .exited(code: 0), .exited(code: 0), .signalled(number: SIGKILL),
      ])
    for child in children { child.closePipes() }
    #expect(contents(of: note) == "a\nb\n")
    #expect(FileSystem.entryNames(of: directories.runtime).isEmpty)
  }

  @Test("A forced end kills all orphaned processes at once")
  func force() throws {
    var child = try start(record(stop: .seconds(600)), ignoresTermination)
    let survivors = try Survivor.all(in: directories)
    let start = ContinuousClock.now
    #expect(Survivor.endProcesses(survivors, isForced: true, in: directories).isEmpty)
    // Without force, the process would have half a minute to end.
    #expect(ContinuousClock.now - start < .seconds(25))
    #expect(child.wait() == .signalled(number: SIGKILL))
    child.closePipes()
  }

  @Test(
    "A recorded launch is read back unchanged, and every difference from a wanted launch is named")
  func difference() throws {
    let pipes = NodeConfiguration(
      outs: [
        .init(
          name: "p", port: nil, rule: .init(when: "open", send: ["x": .number(2)]),
          receiver: "r", endpoint: "ipc://e", capacity: 1, isDurable: true)
      ])
    let wanted = launch(
      arguments: ["run"], environment: ["A": "b"], configuration: pipes)
    let written = try JSONValue(encoding: wanted).decode(ProcessRecord.Launch.self)
    #expect(written.difference(from: wanted) == nil)
    var participating = pipes
    participating.participant = .init(coordinator: "lift", events: ["open": ["lift"]])
    for (other, difference) in [
      (launch(program: "/bin/cat", arguments: ["run"]), .program(wanted: "/bin/sh")),
      (launch(arguments: ["run", "x"]), .hosted),
      (launch(arguments: ["run"], environment: ["A": "c"]), .environment),
      (launch(arguments: ["run"], environment: ["A": "b"]), .pipes),
      (
        launch(arguments: ["run"], environment: ["A": "b"], configuration: participating),
        .composites
      ),
    ] as [(ProcessRecord.Launch, ProcessRecord.Difference)] {
      #expect(other.difference(from: wanted) == difference)
    }
    var older = wanted
    older.build = "0"
    #expect(older.difference(from: wanted) == .build)
  }
}

@Suite("The count of incarnations")
struct IncarnationsTests {
  @Test("Incarnation numbers outlive runs and never decrease")
  func outlive() throws {
    let root = try TemporaryDirectory()
    let directories = try RuntimeDirectories(topology: "lift", roots: root.roots)
    try FileSystem.makeDirectories(directories.state)
    var first = try Incarnations(in: directories)
    #expect(first.counts.isEmpty)
    try first.record(["door": 1, "motor": 1])
    try first.record(["door": 3])
    var second = try Incarnations(in: directories)
    #expect(second.counts == ["door": 3, "motor": 1])
    try second.record(["door": 2])
    #expect(try Incarnations(in: directories).counts == ["door": 3, "motor": 1])
    #expect(FileSystem.entryNames(of: directories.state) == ["incarnations.json"])
  }

  @Test("A damaged file of incarnation counts is an error, and does not count as a missing file")
  func damaged() throws {
    let root = try TemporaryDirectory()
    let directories = try RuntimeDirectories(topology: "lift", roots: root.roots)
    try FileSystem.makeDirectories(directories.state)
    try FileSystem.replace(directories.state + "/incarnations.json", with: Array("{\"door\":".utf8))
    let error = try #require(throws: Incarnations.DamagedFileError.self) {
      try Incarnations(in: directories)
    }
    #expect(error.description.contains("is damaged"))
  }

  @Test("An incarnation count that cannot be written causes an error and does not take effect")
  func unwritable() throws {
    let root = try TemporaryDirectory()
    let directories = try RuntimeDirectories(topology: "lift", roots: root.roots)
    var incarnations = try Incarnations(in: directories)
    #expect(throws: SystemError.self) { try incarnations.record(["door": 1]) }
    #expect(incarnations.counts.isEmpty)
  }
}
