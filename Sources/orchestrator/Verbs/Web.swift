import Glibc
import PipeRuntime
import PipeSupervision

/// The verb `orchestrator web`.
struct Web: Verb {
  let description = VerbDescription(
    "web", "Serves the inspector, a page for the browser",
    discussion:
      "Runs 'inspector web', a separate program that is installed beside the orchestrator. "
      + "Prints the address of the page, and serves the page until ^C. By default, the page is "
      + "served only on this host, and only to browsers that open the printed address. With RUN, "
      + "the page shows a run that 'orchestrator record' has written; no node runs. See "
      + "docs/INSPECT.md.",
    options: [.topology] + Option.pageOptions,
    positionals: [.run],
    examples: [
      ("orchestrator web run1", "Serves a page of the recorded run in the directory 'run1'"),
      ("orchestrator web -p shop --read-only", "Serves a page that cannot send events"),
      (
        "orchestrator web --socket page.socket",
        "Serves the page on a socket, for 'ssh -L 8080:/path/to/page.socket HOST'"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let inspector = try InspectorProgram.path()
    try console.flush()
    let inspectorArguments =
      [inspector, "web"]
      + InspectorProgram.inspectorArguments(
        arguments, of: Option.targetOptions + Option.pageOptions)
      + (arguments.positionals.isEmpty ? [] : ["--"] + arguments.positionals)
    // The inspector replaces this process, and so keeps the terminal.
    var vector: [UnsafeMutablePointer<CChar>?] = inspectorArguments.map { strdup($0) } + [nil]
    execv(inspector, &vector)
    let error = SystemError("execv", on: inspector, code: errno)
    for word in vector { free(word) }
    throw CommandError("cannot start the inspector: \(error)")
  }
}

/// The program that serves the page. It is a separate program beside the orchestrator, because the
/// orchestrator contains no web server.
enum InspectorProgram {
  /// Returns the path of the program.
  static func path() throws(CommandError) -> String {
    let executable = OwnProcess.executablePath ?? FileSystem.absolutePath(CommandLine.arguments[0])
    let path = FileSystem.parentDirectory(of: executable) + "/inspector"
    guard FileSystem.exists(path) else {
      throw CommandError(
        "no such file '\(path)': build the inspector with 'make build', or with 'swift "
          + "build --product inspector' for a debug build")
    }
    return path
  }

  /// Returns the options on the command line that the inspector accepts as well, as arguments for
  /// the inspector.
  static func inspectorArguments(_ arguments: ParsedArguments, of options: [Option]) -> [String] {
    arguments.options.filter { given in options.contains { $0.long == given.name } }
      .flatMap { $0.value.isEmpty ? ["--\($0.name)"] : ["--\($0.name)", $0.value] }
  }
}

/// The web page of a run. A child process serves the page, and ends together with the run.
final class RunWebPage {
  private var child: ChildProcess

  /// The maximum wait until the server listens.
  private static let startTimeout: Duration = .seconds(30)

  /// How long the server may take to end gracefully and remove its socket.
  private static let gracePeriod: Duration = .seconds(2)

  /// Starts the server.
  /// - Parameters:
  ///   - inspectorArguments: The options of `inspector web`.
  ///   - reportAddress: Called with the line that contains the address.
  init(of topology: String, _ inspectorArguments: [String], reportAddress: (String) -> Void) throws
  {
    child = try ChildProcess.spawn(
      ChildCommand(
        path: try InspectorProgram.path(), arguments: ["web", "-p", topology] + inspectorArguments,
        environment: ProcessEnvironment.current, leadsSession: true))
    let deadline = ContinuousClock.now + Self.startTimeout
    var (output, errors): ([UInt8], [UInt8]) = ([], [])
    var openDescriptors: Set<Int32> = [child.outputDescriptor, child.errorDescriptor]
    while !output.contains(UInt8(ascii: "\n")), !openDescriptors.isEmpty,
      ContinuousClock.now < deadline
    {
      for (descriptor, bytes) in PipeReader.readAvailable(&openDescriptors, until: deadline) {
        if descriptor == child.outputDescriptor { output += bytes } else { errors += bytes }
      }
    }
    guard let line = output.split(separator: UInt8(ascii: "\n")).first else {
      end()
      let reason = String(decoding: errors.suffix(2_000), as: UTF8.self).printable
      throw CommandError(
        "cannot serve the page: "
          + (reason.isEmpty ? "'inspector web' printed no address" : reason))
    }
    reportAddress(String(decoding: line, as: UTF8.self))
  }

  /// Ends the server.
  func end() {
    child.signal(.terminate)
    let deadline = ContinuousClock.now + Self.gracePeriod
    var openDescriptors: Set<Int32> = [child.outputDescriptor, child.errorDescriptor]
    while !openDescriptors.isEmpty, ContinuousClock.now < deadline {
      _ = PipeReader.readAvailable(&openDescriptors, until: deadline)
    }
    child.signal(.kill, group: true)
    child.wait()
    child.closePipes()
  }
}
