import Glibc
import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestTraits
import Testing
import orchestrator

/// The real binary, which runs in a test's own directory.
struct Command {
  private let directory: TestDirectory
  var root: String { directory.path }

  struct Result {
    var exit: ProcessExit?
    var output: String
    var error: String
  }

  init() throws { directory = try TestDirectory() }

  func remove() { directory.remove() }

  var roots: RuntimeRoots { directory.roots }

  /// The path of the orchestrator binary, which is built beside the test binary.
  static let path: String = {
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = buffer.withUnsafeMutableBytes {
      readlink("/proc/self/exe", $0.assumingMemoryBound(to: CChar.self).baseAddress!, $0.count)
    }
    let own = String(decoding: buffer.prefix(max(count, 0)), as: UTF8.self)
    return FileSystem.parentDirectory(of: own) + "/orchestrator"
  }()

  func start(
    shell script: String, output: ChildCommand.Output = .pipes
  ) throws -> ChildProcess {
    try ChildProcess.spawn(
      ChildCommand(
        path: "/bin/bash", arguments: ["-c", script],
        environment: [
          "PIPERUNTIME_ROOT": root,
          "PATH": FileSystem.parentDirectory(of: Self.path) + ":/usr/bin:/bin",
        ], directory: root, output: output))
  }

  /// Runs a line of bash to its end.
  func run(shell script: String) throws -> Result {
    var child = try start(shell: script)
    defer { child.closePipes() }
    let output = Self.text(of: child.outputDescriptor)
    let error = Self.text(of: child.errorDescriptor)
    return Result(exit: child.wait(), output: output, error: error)
  }

  /// Runs a line of bash to its end, in a new directory with these files.
  static func run(_ line: String, among files: KeyValuePairs<String, String>) throws -> Result {
    let command = try Command()
    defer { command.remove() }
    for (name, text) in files { try command.directory.write(text + "\n", to: name) }
    return try command.run(shell: line)
  }

  /// Returns what bash completion offers for the last of these words.
  func complete(_ words: String...) throws -> [String] {
    let line = """
      source <(orchestrator completion bash)
      COMP_WORDS=(orchestrator \(words.map { "'\($0)'" }.joined(separator: " ")))
      COMP_CWORD=\(words.count); _orchestrator; printf '%s\\n' "${COMPREPLY[@]}"
      """
    return try run(shell: line).output.split(separator: "\n").map(String.init)
  }

  static func text(of descriptor: Int32, until isEnough: (String) -> Bool = { _ in false })
    -> String
  {
    var text: [UInt8] = []
    while true {
      var item = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      guard poll(&item, 1, 60_000) > 0 else { break }
      guard let bytes = try? FileSystem.read(descriptor), !bytes.isEmpty else { break }
      text += bytes
      if isEnough(String(decoding: text, as: UTF8.self)) { break }
    }
    return String(decoding: text, as: UTF8.self)
  }
}

@Suite("The command without a running topology", .timed, .blocking)
struct CommandTests {
  @Test(
    "The exit code and output of each command match the documentation",
    arguments: [
      ("orchestrator version", 0, "orchestrator 0.3.0\n", ""),
      ("orchestrator version -o json", 0, "{\"version\":\"0.3.0\"}\n", ""),
      ("orchestrator ls", 0, "NAME  STATUS  PID  UPTIME  FILE\n", ""),
      ("orchestrator ls -q", 0, "", ""),
      ("orchestrator ls -o json", 0, "[]\n", ""),
      ("orchestrator ls -o jsonl", 0, "", ""),
      (
        "orchestrator", 2, "",
        "orchestrator: error: missing verb\nTry 'orchestrator --help'.\n"
      ),
      ("orchestrator logs", 3, "", "orchestrator: error: no topology has run on this host yet\n"),
      (
        "orchestrator logs -p lift", 3, "",
        "orchestrator: error: topology 'lift' has no logs on this host\n"
      ),
    ] as [(String, Int32, String, String)])
  func exits(line: String, code: Int32, output: String, error: String) throws {
    let command = try Command()
    defer { command.remove() }
    let result = try command.run(shell: line)
    #expect(result.exit == .exited(code: code))
    #expect(result.output == output)
    #expect(result.error == error)
  }

  @Test(
    "A verb's help page shows its usage and all of its options within 100 columns",
    arguments: Verbs.descriptions.map(\.name))
  func helpPages(verb: String) throws {
    let command = try Command()
    defer { command.remove() }
    let page = try command.run(shell: "orchestrator \(verb) --help").output
    #expect(page == (try command.run(shell: "orchestrator help \(verb)").output))
    let description = try #require(Verbs.descriptions.first { $0.name == verb })
    for option in description.allOptions { #expect(page.contains("--" + option.long)) }
    #expect(page.contains(description.usage))
    #expect(page.split(separator: "\n").allSatisfy { $0.count <= 100 })
  }

  @Test("Completion in bash offers verbs, options, choices and running topologies")
  func bashCompletion() throws {
    let command = try Command()
    defer { command.remove() }
    let lock = try TopologyLock.acquire(
      RuntimeDirectories(topology: "lift", roots: command.roots), file: nil)
    defer { lock.release() }
    #expect(try command.complete("sta") == ["status", "start"])
    #expect(try command.complete("logs", "--f") == ["--follow"])
    #expect(try command.complete("-p", "lift", "ls", "-o", "js") == ["json", "jsonl"])
    #expect(try command.complete("down", "-p", "") == ["lift"])
    #expect(try command.complete("down", "--topology", "=", "li") == ["lift"])
    #expect(try command.complete("-p", "") == ["lift"])
    #expect(try command.complete("completion", "f") == ["fish"])
    #expect(try command.complete("dead-letters", "gate", "re") == ["resend"])
    #expect(try command.run(shell: "mkdir folder; touch folded").exit == .exited(code: 0))
    #expect(try command.complete("check", "fol").sorted() == ["folded", "folder"])
    #expect(try command.complete("init", "--directory", "fol") == ["folder"])
  }

  @Test("The command exits 0 when the reader of its output closes the pipe")
  func closedPipe() throws {
    let command = try Command()
    defer { command.remove() }
    var ends: [Int32] = [-1, -1]
    #expect(pipe(&ends) == 0)
    close(ends[0])
    var child = try command.start(
      shell: "exec orchestrator --help 2> errors", output: .descriptor(ends[1]))
    close(ends[1])
    #expect(child.wait() == .exited(code: 0))
    let errors = open(command.root + "/errors", O_RDONLY)
    defer { close(errors) }
    #expect(try FileSystem.read(errors) == [])
  }

  @Test("'ls' lists a running topology with its file")
  func list() throws {
    let command = try Command()
    defer { command.remove() }
    let lock = try TopologyLock.acquire(
      RuntimeDirectories(topology: "lift", roots: command.roots), file: "/etc/lift.yaml")
    defer { lock.release() }
    let lines = try command.run(shell: "orchestrator ls").output.split(separator: "\n")
    #expect(lines.count == 2)
    #expect(
      lines.last?.hasPrefix("lift ") == true && lines.last?.hasSuffix("/etc/lift.yaml") == true)
    let record = try JSONValue(
      parsing: command.run(shell: "orchestrator ls -o jsonl").output.utf8)
    #expect(record["name"] == "lift" && record["pid"]?.integer == Int64(getpid()))
  }

  @Test("'logs' merges the logs of nodes, limits them to the last lines, and refuses unknown nodes")
  func logs() throws {
    let command = try Command()
    defer { command.remove() }
    let directories = try RuntimeDirectories(topology: "lift", roots: command.roots)
    try FileSystem.makeDirectories(directories.logs)
    let door = LogWriter(node: "door", in: directories)
    let motor = LogWriter(node: "motor", in: directories)
    for index in 0..<4 {
      let writer = index % 2 == 0 ? door : motor
      _ = writer.write(["line \(index)"], from: .out, at: Timestamp(milliseconds: Int64(index)))
    }
    #expect(
      try command.run(shell: "orchestrator logs").output
        == "door  | line 0\nmotor | line 1\ndoor  | line 2\nmotor | line 3\n")
    #expect(try command.run(shell: "orchestrator logs -n1 --no-prefix door").output == "line 2\n")
    #expect(
      try command.run(shell: "orchestrator logs -n 1 -t motor").output
        == "motor | 1970-01-01T00:00:00.003Z line 3\n")
    func read(_ options: String) throws -> String {
      try command.run(shell: "TZ=Asia/Tokyo orchestrator logs motor --no-prefix \(options)").output
    }
    #expect(try read("--tail 1") == "line 3\n")
    #expect(try read("--since 1970-01-01T00:00:00.002Z") == "line 3\n")
    #expect(try read("--since '1970-01-01 09:00:00.001'") == "line 1\nline 3\n")
    #expect(try read("--since '1970-01-01 09:00' --tail 1") == "line 3\n")
    #expect(try read("--since 5m") == "")
    let undated = try command.run(shell: "orchestrator logs --since soon")
    #expect(undated.exit == .exited(code: 2))
    #expect(undated.error.contains("\(UsageError.invalid("--since", "soon", .moment))"))
    let unknown = try command.run(shell: "orchestrator logs dor")
    #expect(unknown.exit == .exited(code: 2))
    let message = LogReader.unknownNodeMessage("dor", of: "lift", known: ["door", "motor"])
    #expect(unknown.error.contains(message), "\(unknown.error)")
  }

  @Test("'logs -f' shows new lines while the topology runs, and exits when the topology ends")
  func followLogs() throws {
    let command = try Command()
    defer { command.remove() }
    let directories = try RuntimeDirectories(topology: "lift", roots: command.roots)
    let lock = try TopologyLock.acquire(directories, file: nil)
    let door = LogWriter(node: "door", in: directories)
    _ = door.write(["before"], from: .out)
    var child = try command.start(shell: "exec orchestrator logs -f")
    defer { child.closePipes() }
    #expect(Command.text(of: child.outputDescriptor) { $0.hasSuffix("\n") } == "door | before\n")
    _ = door.write(["after"], from: .err)
    #expect(Command.text(of: child.outputDescriptor) { $0.hasSuffix("\n") } == "door | after\n")
    _ = door.write(["last"], from: .out)
    lock.release()
    #expect(Command.text(of: child.outputDescriptor) == "door | last\n")
    #expect(child.wait() == .exited(code: 0))
  }
}
