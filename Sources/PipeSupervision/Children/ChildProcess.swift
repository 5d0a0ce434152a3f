import CProcess
import Glibc
import PipeClient
import PipeSystem

/// A child of this process, and the read ends of its output pipes.
///
/// The process id is valid only until the child is reaped. Afterwards, the system may give the id
/// to another process, so no signal is sent any more.
package struct ChildProcess: Sendable {
  package let pid: Int32
  /// The non-blocking read end of the child's stdout, or -1 if this process does not read it.
  package let outputDescriptor: Int32
  /// The non-blocking read end of the child's stderr, or -1 if this process does not read it.
  package let errorDescriptor: Int32
  /// A descriptor that becomes readable when it is known whether the child runs its program; -1
  /// after the result was read.
  package private(set) var reportDescriptor: Int32
  /// How the child ended; `nil` until it is reaped.
  package private(set) var exit: ProcessExit?
  private let command: ChildCommand

  /// Starts a child and waits until it runs the new program.
  /// - Throws: ``SpawnError``, also if exec fails.
  package static func spawn(_ command: ChildCommand) throws -> ChildProcess {
    try start(command) { options, pid, _ in pr_spawn(&options, &pid) }
  }

  /// Starts a child without waiting until the child runs its program. Call ``readReport()`` to find
  /// out later whether the program runs.
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
    var reportDescriptor: Int32 = -1
    let code = Orphans.startRegistered(&pid) { pid in
      command.withSpawnOptions { options in
        switch command.output {
        case .pipes:
          options.standard_output = output.writeEnd
          options.standard_error = error.writeEnd
        case .inherited: break
        case .descriptor(let descriptor):
          options.standard_output = descriptor
          options.standard_error = descriptor
        case .descriptors(let output, let error):
          options.standard_output = output
          options.standard_error = error
        }
        return fork(&options, &pid, &reportDescriptor)
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
      pid: pid, outputDescriptor: output.readEnd, errorDescriptor: error.readEnd,
      reportDescriptor: reportDescriptor, command: command)
  }

  /// Reads the report on whether a launched child runs its program. Closes ``reportDescriptor``
  /// when the report is complete.
  /// - Returns: The reason why the program does not run; `nil` if the program runs, or if the
  ///   result is not known yet. If there is a reason, the child is ending and must still be reaped.
  package mutating func readReport() -> SpawnError? {
    guard reportDescriptor >= 0 else { return nil }
    let code = pr_spawn_report(reportDescriptor)
    guard code >= 0 else { return nil }
    close(reportDescriptor)
    reportDescriptor = -1
    return code == 0 ? nil : SpawnError(command: command, code: code)
  }

  /// Sends a signal to the child, or to its whole process group.
  /// - Returns: Whether the process still exists.
  @discardableResult
  package func signal(_ signal: Signal, group: Bool = false) -> Bool {
    guard exit == nil else { return false }
    if group, kill(-pid, signal.number) == 0 { return true }
    // Immediately after the fork, the child does not lead a process group yet, so the signal is
    // sent to the child alone.
    return kill(pid, signal.number) == 0
  }

  /// Reaps the child if it has ended. Does not wait.
  /// - Returns: How the child ended; `nil` if it is still running.
  package mutating func reap() -> ProcessExit? {
    wait(options: WNOHANG)
  }

  /// Waits until the child ends, and reaps it.
  /// - Returns: How the child ended; `nil` if it cannot be reaped.
  @discardableResult
  package mutating func wait() -> ProcessExit? {
    wait(options: 0)
  }

  /// Closes the read ends of all pipes. Call this once, after you have read the output to its end.
  package func closePipes() {
    if reportDescriptor >= 0 { close(reportDescriptor) }
    if outputDescriptor >= 0 { close(outputDescriptor) }
    if errorDescriptor >= 0 { close(errorDescriptor) }
  }

  /// Reaps orphaned processes if this process is process 1 of a container. In a container, no other
  /// process reaps them.
  package static func reapOrphans() { Orphans.reap() }

  private mutating func wait(options: Int32) -> ProcessExit? {
    if let exit { return exit }
    var info = siginfo_t()
    var result: Int32
    repeat {
      result = waitid(P_PID, id_t(pid), &info, WEXITED | WNOWAIT | options)
    } while result < 0 && errno == EINTR
    guard result == 0, info.si_signo == SIGCHLD else { return nil }
    // The child is not reaped yet, so its process group id cannot have been reused. The signal
    // reaches only processes that the child has started.
    kill(-pid, SIGKILL)
    var word: Int32 = 0
    while waitpid(pid, &word, 0) < 0, errno == EINTR {}
    Orphans.forget(pid)
    exit = ProcessExit(waitStatus: word)
    return exit
  }
}

/// Both ends of a pipe. An end is -1 if it is closed or was never open.
private struct PipeEnds {
  var readEnd: Int32 = -1
  var writeEnd: Int32 = -1

  static func open() throws -> PipeEnds {
    var ends = PipeEnds()
    let code = pr_pipe(&ends.readEnd, &ends.writeEnd)
    guard code == 0 else { throw SystemError("pipe", code: code) }
    return ends
  }

  mutating func closeWrite() {
    if writeEnd >= 0 { close(writeEnd) }
    writeEnd = -1
  }

  mutating func closeBoth() {
    closeWrite()
    if readEnd >= 0 { close(readEnd) }
    readEnd = -1
  }
}

/// The program of a child, and how it runs.
package struct ChildCommand: Hashable, Sendable {
  package enum Output: Hashable, Sendable {
    /// Stdout and stderr go to this process, each through its own pipe.
    case pipes
    /// The child writes to the stdout and stderr of this process. A program that reads these
    /// outputs to their end must therefore also wait until the child ends.
    case inherited
    /// Stdout and stderr both go to this descriptor.
    case descriptor(Int32)
    /// Stdout and stderr go to different descriptors.
    case descriptors(output: Int32, error: Int32)
  }

  /// The path of the executable, which is also the first argument. `PATH` is not searched.
  package var path: String
  /// The path of the file to execute instead of the file at `path`. The default, `nil`, executes
  /// the file at `path`.
  package var executable: String?
  /// The arguments after the program's name.
  package var arguments: [String]
  package var environment: [String: String]
  /// The working directory; `nil` for the directory of this process.
  package var directory: String?
  /// The descriptor for the child's stdin. The default, `nil`, is an empty stdin.
  package var inputDescriptor: Int32?
  /// The destination of stdout and stderr. Default: pipes to this process.
  package var output: Output
  /// The signal that the kernel sends to the child when the starting thread ends. If you set a
  /// signal, start the child from a thread that lives as long as this process. If `nil`, the child
  /// can outlive this process. Default: SIGKILL.
  package var deathSignal: Signal?
  /// Whether the child is the leader of a new session, without the terminal of this process.
  package var leadsSession: Bool
  /// A descriptor that the child inherits as its descriptor 3. Before the child runs its program,
  /// it appends the contents of its /proc/self/stat to this descriptor. Default: none.
  package var recordDescriptor: Int32?

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
    self.inputDescriptor = input
    self.output = output
    self.deathSignal = deathSignal
    self.leadsSession = leadsSession
    self.recordDescriptor = record
  }

  /// Calls `body` with the C representation of this command, which is valid only during the call.
  func withSpawnOptions<Result>(_ body: (inout pr_spawn) -> Result) -> Result {
    let variables = environment.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
    return withCStrings([path] + arguments) { arguments in
      withCStrings(variables) { environment in
        withCString(directory) { directory in
          withCString(executable) { executable in
            var options = pr_spawn(
              path: executable ?? UnsafePointer(arguments[0]!), arguments: arguments,
              environment: environment, directory: directory,
              standard_input: inputDescriptor ?? -1, standard_output: -1, standard_error: -1,
              death_signal: deathSignal?.number ?? 0, new_session: leadsSession ? 1 : 0,
              record: recordDescriptor ?? -1)
            return body(&options)
          }
        }
      }
    }
  }
}

/// The reason why a child could not be started.
package struct SpawnError: Error, Hashable, CustomStringConvertible {
  package let path: String
  package let directory: String?
  /// The errno of the call that failed. The call may be exec.
  package let code: Int32

  init(command: ChildCommand, code: Int32) {
    path = command.executable ?? command.path
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
      case EACCES:
        "make the file executable with 'chmod +x'; its file system must not be mounted with 'noexec'"
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
