import CProcess
import Glibc
import PipeClient
import PipeSystem

/// A child of this process, and the read ends of its output pipes.
///
/// The process id is valid only until the child is reaped. No signal is sent afterwards, because the
/// system may have given the id to another process.
package struct ChildProcess: Sendable {
  package let pid: Int32
  /// The non-blocking read end of the child's stdout, or -1 if this process does not read it.
  package let output: Int32
  /// The non-blocking read end of the child's stderr, or -1 if this process does not read it.
  package let error: Int32
  /// A descriptor that becomes readable once it is known whether the child runs its program; -1 if that
  /// is known.
  package private(set) var report: Int32
  /// How the child ended, once it is reaped.
  package private(set) var status: ProcessExit?
  private let command: ChildCommand

  /// Starts a child and waits until it runs the new program.
  /// - Throws: ``SpawnError``, also if exec fails.
  package static func spawn(_ command: ChildCommand) throws -> ChildProcess {
    try start(command) { options, pid, _ in pr_spawn(&options, &pid) }
  }

  /// Starts a child and returns at once. ``readReport()`` returns later whether its program can run.
  /// - Throws: ``SpawnError`` if no child could be created.
  package static func launch(_ command: ChildCommand) throws -> ChildProcess {
    try start(command) { options, pid, report in pr_spawn_begin(&options, &pid, &report) }
  }

  private static func start(
    _ command: ChildCommand,
    _ fork: (inout pr_spawn, _ pid: inout Int32, _ report: inout Int32) -> Int32
  ) throws -> ChildProcess {
    var output = PipeEnds()
    var error = PipeEnds()
    do {
      if command.output == .pipes {
        output = try PipeEnds.open()
        error = try PipeEnds.open()
      }
    } catch let cause as SystemError {
      output.closeBoth()
      throw SpawnError(command: command, code: cause.code)
    }
    var pid: Int32 = 0
    var report: Int32 = -1
    let code = Orphans.startRegistered(&pid) { pid in
      command.withSpawnOptions { options in
        switch command.output {
        case .pipes:
          options.standard_output = output.write
          options.standard_error = error.write
        case .inherited: break
        case .descriptor(let descriptor):
          options.standard_output = descriptor
          options.standard_error = descriptor
        case .descriptors(let output, let error):
          options.standard_output = output
          options.standard_error = error
        }
        return fork(&options, &pid, &report)
      }
    }
    output.closeWrite()
    error.closeWrite()
    guard code == 0 else {
      output.closeBoth()
      error.closeBoth()
      throw SpawnError(command: command, code: code)
    }
    return ChildProcess(
      pid: pid, output: output.read, error: error.read, report: report, command: command)
  }

  /// Reads whether the program of a launched child runs, and closes ``report`` once that is known.
  /// - Returns: Why the program does not run. In that case the child is ending and must still be reaped.
  package mutating func readReport() -> SpawnError? {
    guard report >= 0 else { return nil }
    let code = pr_spawn_report(report)
    guard code >= 0 else { return nil }
    close(report)
    report = -1
    return code == 0 ? nil : SpawnError(command: command, code: code)
  }

  /// Sends a signal, to the whole process group if `group` is set.
  /// - Returns: Whether there was a process to send it to.
  @discardableResult
  package func signal(_ signal: Signal, group: Bool = false) -> Bool {
    guard status == nil else { return false }
    if group, kill(-pid, signal.number) == 0 { return true }
    // Just after the fork, the child does not lead a process group yet.
    return kill(pid, signal.number) == 0
  }

  /// Reaps the child if it has ended; never waits.
  package mutating func reap() -> ProcessExit? {
    wait(options: WNOHANG)
  }

  /// Waits until the child ends.
  @discardableResult
  package mutating func wait() -> ProcessExit? {
    wait(options: 0)
  }

  /// Closes the read ends of the pipes. Call it once, after the output has been read to its end.
  package func closePipes() {
    if report >= 0 { close(report) }
    if output >= 0 { close(output) }
    if error >= 0 { close(error) }
  }

  /// Reaps orphaned processes, if this is process 1 of a container: no other process reaps them there.
  package static func reapOrphans() { Orphans.reap() }

  private mutating func wait(options: Int32) -> ProcessExit? {
    if let status { return status }
    var info = siginfo_t()
    var result: Int32
    repeat {
      result = waitid(P_PID, id_t(pid), &info, WEXITED | WNOWAIT | options)
    } while result < 0 && errno == EINTR
    guard result == 0, info.si_signo == SIGCHLD else { return nil }
    // While the child is not reaped, its group id cannot be reused. So this kills all processes that
    // the child has started, and no other processes.
    kill(-pid, SIGKILL)
    var word: Int32 = 0
    while waitpid(pid, &word, 0) < 0, errno == EINTR {}
    Orphans.forget(pid)
    status = ProcessExit(waitStatus: word)
    return status
  }
}

/// Both ends of a pipe; -1 is an end that is closed or was never open.
private struct PipeEnds {
  var read: Int32 = -1
  var write: Int32 = -1

  static func open() throws -> PipeEnds {
    var ends = PipeEnds()
    let code = pr_pipe(&ends.read, &ends.write)
    guard code == 0 else { throw SystemError("pipe", code: code) }
    return ends
  }

  mutating func closeWrite() {
    if write >= 0 { close(write) }
    write = -1
  }

  mutating func closeBoth() {
    closeWrite()
    if read >= 0 { close(read) }
    read = -1
  }
}

/// The program of a child, and how it runs.
package struct ChildCommand: Hashable, Sendable {
  package enum Output: Hashable, Sendable {
    /// To this process, through one pipe each.
    case pipes
    /// To the outputs of this process. A reader that waits for their end also waits for the child.
    case inherited
    /// Both to this descriptor.
    case descriptor(Int32)
    /// To one descriptor each.
    case descriptors(output: Int32, error: Int32)
  }

  /// An open program file, which may have been removed from its path.
  package struct Program: Hashable, Sendable {
    package var descriptor: Int32
    /// Whether an interpreter reads the file and so requires the descriptor.
    package var isScript: Bool
  }

  /// The path of the executable; `PATH` is not searched.
  package var path: String
  /// The file to execute instead of the file at `path`. Default: the file at `path`.
  package var program: Program?
  /// The arguments after the program's name.
  package var arguments: [String]
  package var environment: [String: String]
  /// The working directory; `nil` for the directory of this process.
  package var directory: String?
  /// The descriptor for the child's stdin. Default: none, and the stdin is empty.
  package var input: Int32?
  /// The destination of stdout and stderr. Default: this process.
  package var output: Output
  /// The signal that the child receives when the thread that spawned it ends. Spawn from a thread that
  /// lives as long as the process. With `nil`, the child outlives this process. Default: SIGKILL.
  package var deathSignal: Signal?
  /// Whether the child leads a session of its own, without the terminal of this process.
  package var leadsSession: Bool
  /// A descriptor that the child inherits as its descriptor 3. Before the child runs its program, it
  /// appends the text of its /proc/self/stat to it. Default: none.
  package var record: Int32?

  package init(
    path: String, arguments: [String] = [], environment: [String: String] = [:],
    directory: String? = nil, input: Int32? = nil, output: Output = .pipes,
    deathSignal: Signal? = .kill, leadsSession: Bool = false,
    record: Int32? = nil
  ) {
    self.path = path
    self.arguments = arguments
    self.environment = environment
    self.directory = directory
    self.input = input
    self.output = output
    self.deathSignal = deathSignal
    self.leadsSession = leadsSession
    self.record = record
  }

  /// Calls `body` with the C representation, which is valid only during the call.
  func withSpawnOptions<Result>(_ body: (inout pr_spawn) -> Result) -> Result {
    let variables = environment.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
    return withCStrings([path] + arguments) { arguments in
      withCStrings(variables) { environment in
        withCString(directory) { directory in
          var options = pr_spawn(
            path: arguments[0]!, arguments: arguments, environment: environment,
            directory: directory, standard_input: input ?? -1, standard_output: -1,
            standard_error: -1, death_signal: deathSignal?.number ?? 0,
            new_session: leadsSession ? 1 : 0, record: record ?? -1,
            program: program?.descriptor ?? -1, keeps_program: program?.isScript == true ? 1 : 0)
          return body(&options)
        }
      }
    }
  }
}

/// The reason why a child could not be started.
package struct SpawnError: Error, Hashable, CustomStringConvertible {
  package let path: String
  package let directory: String?
  /// The errno of the call that failed, including exec.
  package let code: Int32

  init(command: ChildCommand, code: Int32) {
    path = command.path
    directory = command.directory
    self.code = code
  }

  package var description: String {
    if let directory, access(directory, X_OK) != 0 {
      return "cannot start '\(path)' in directory '\(directory)': \(SystemError.text(of: errno)); "
        + "create the directory or correct the path"
    }
    let advice =
      switch code {
      case ENOENT where access(path, F_OK) == 0:
        "the interpreter in the first line of the file does not exist"
      case ENOENT, ENOTDIR: "build the program, or correct 'program' in the topology file"
      case ENOSPC, EDQUOT: "free disk space"
      case EACCES: "make the file executable with 'chmod +x'"
      case ENOEXEC: "the file is not a program for this system"
      case EAGAIN, ENOMEM, EMFILE, ENFILE: "check the resource limits with 'ulimit -a'"
      case E2BIG: "the arguments and the environment are too long"
      default: "errno \(code)"
      }
    return "cannot start '\(path)': \(SystemError.text(of: code)); \(advice)"
  }
}

private func withCStrings<Result>(
  _ strings: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
  var pointers: [UnsafeMutablePointer<CChar>?] = strings.map { strdup($0) }
  pointers.append(nil)
  defer { for pointer in pointers { free(pointer) } }
  return pointers.withUnsafeBufferPointer { body($0.baseAddress!) }
}

private func withCString<Result>(
  _ string: String?, _ body: (UnsafePointer<CChar>?) -> Result
) -> Result {
  guard let string else { return body(nil) }
  return string.withCString { body($0) }
}
