import Glibc
import PipeRuntime
import PipeSupervision

/// The `orchestrator` command, confined to a directory of its own.
struct OrchestratorCommand: Sendable {
  let directory: TemporaryDirectory
  /// Where it runs; `nil` on this machine itself.
  var hosts: SlurmHosts?

  /// Where its topologies have their sockets.
  var roots: RuntimeRoots { RuntimeRoots(environment: environment) }

  private var environment: [String: String] {
    ProcessEnvironment.current.merging(["PIPERUNTIME_ROOT": directory.path]) { $1 }
      .merging(hosts?.environment ?? [:]) { $1 }
  }

  private var output: String { directory.path + "/orchestrator.out" }

  /// Starts it; the child gets SIGKILL when this thread ends.
  /// - Parameter path: What it writes to; `nil` is a file for all that have none of their own.
  func spawn(_ arguments: [String], writingTo path: String? = nil) throws -> ChildProcess {
    try spawn(Programs.orchestrator, arguments, writingTo: path)
  }

  /// Starts another program in the same way.
  func spawn(
    _ program: String, _ arguments: [String], writingTo path: String? = nil
  ) throws -> ChildProcess {
    let output = path ?? output
    let descriptor = open(output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: output, code: errno) }
    defer { close(descriptor) }
    let line = (hosts?.prefix ?? []) + [program] + arguments
    return try ChildProcess.spawn(
      ChildCommand(
        path: line[0], arguments: Array(line.dropFirst()), environment: environment,
        output: .descriptor(descriptor)))
  }

  /// Runs it to its end. Throws where it fails.
  func run(_ arguments: [String]) throws {
    var process = try spawn(arguments)
    let status = process.wait()
    guard status == .exited(code: 0) else { throw failure(arguments, status) }
  }

  /// What went wrong, with what it wrote.
  func failure(_ arguments: [String], _ status: ProcessExit?) -> HarnessError {
    let end = status.map { "\($0)" } ?? "goes on without effect"
    let text = HostMachine.text(of: output).split(separator: "\n").suffix(20)
    return HarnessError(
      "'orchestrator \(arguments.joined(separator: " "))': \(end)\n"
        + text.joined(separator: "\n"))
  }
}
