import CProcess
import Glibc
import PipeSystem

/// What to run as a child, and how.
package struct ChildCommand: Hashable, Sendable {
  package enum Output: Hashable, Sendable {
    /// To us, through a pipe each.
    case pipes
    /// To where ours go. Whoever waits for the end of ours then waits for the child's as well.
    case inherited
    /// Both to this descriptor.
    case descriptor(Int32)
    /// To a descriptor each.
    case descriptors(output: Int32, error: Int32)
  }

  /// A program file that is open, and may not be at its path any more.
  package struct Program: Hashable, Sendable {
    package var descriptor: Int32
    /// Whether an interpreter reads it, which needs the descriptor.
    package var isScript: Bool
  }

  /// The executable; not searched in PATH.
  package var path: String
  /// What is executed in place of the file at `path`. Default: that file.
  package var program: Program?
  /// The arguments after the program's name.
  package var arguments: [String]
  package var environment: [String: String]
  /// The working directory; `nil` is ours.
  package var directory: String?
  /// A descriptor that is the child's stdin. Default: none, and its stdin is empty.
  package var input: Int32?
  /// Where stdout and stderr go. Default: to us.
  package var output: Output
  /// Sent to the child when the thread that spawned it ends: spawn from a thread that lives as long
  /// as the process. `nil` lets the child outlive us. Default: SIGKILL.
  package var deathSignal: Signal?
  /// Whether the child leads a session of its own, away from our terminal.
  package var leadsSession: Bool
  /// A descriptor that the child inherits as its descriptor 3. Before it runs its program it appends
  /// the text of its /proc/self/stat. Default: none.
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

  /// Calls `body` with the C form, which is valid only during the call.
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

/// Why a child could not be started.
package struct SpawnError: Error, Hashable, CustomStringConvertible {
  package let path: String
  package let directory: String?
  /// The errno of the call that failed, exec included.
  package let code: Int32

  init(command: ChildCommand, code: Int32) {
    path = command.path
    directory = command.directory
    self.code = code
  }

  package var description: String {
    if let directory, access(directory, X_OK) != 0 {
      return "cannot start '\(path)' in directory '\(directory)': "
        + "\(SystemError.text(of: errno)); create it or correct the path"
    }
    let advice =
      switch code {
      case ENOENT where access(path, F_OK) == 0: "its interpreter is missing; see its first line"
      case ENOENT, ENOTDIR: "build it, or correct 'program' in the topology"
      case ENOSPC, EDQUOT: "free some space on the disk"
      case EACCES: "make it executable with chmod +x"
      case ENOEXEC: "it is no program for this machine"
      case EAGAIN, ENOMEM, EMFILE, ENFILE: "the system is out of a resource; see ulimit -a"
      case E2BIG: "its arguments and environment are too long"
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
