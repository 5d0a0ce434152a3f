import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// The `orchestrator` and the node programs, which run in a directory of one test.
struct CommandLineTool {
  struct Result: CustomStringConvertible {
    /// The exit code, or `nil` if a signal ended the program or it did not end in time.
    var code: Int32?
    var output: String
    var error: String

    var description: String {
      "code \(code.map(String.init) ?? "none"), output:\n\(output)\nerror:\n\(error)"
    }
  }

  let directory: TestDirectory
  var environment: [String: String] = [:]
  /// The words before the orchestrator's command line, such as `ip netns exec NAME`; empty if there
  /// are none.
  var prefix: [String] = []
  /// The nodes that the test crashes on purpose.
  var crashingNodes: Set<String> = []

  static let orchestrator: String = {
    do { return try BinaryLocator.find("orchestrator", variable: "PIPERUNTIME_ORCHESTRATOR") } catch
    { fatalError("\(error)") }
  }()

  /// The directory that contains `orchestrator`, `nodes` and `TestNodes`. It belongs to the build
  /// of the tests, or to another build.
  static var products: String { FileSystem.parentDirectory(of: orchestrator) }

  /// The process that kills background processes when the test's process is killed.
  private let cleanupProcess: LaunchedProgram?

  init() throws {
    directory = try TestDirectory()
    cleanupProcess = try directory.killAfterCrash()
  }

  init(beside harness: TopologyHarness) {
    directory = harness.directory
    cleanupProcess = nil
  }

  /// Runs a closure with a new tool, as soon as the limit of concurrent topologies allows this.
  static func launching(_ body: (CommandLineTool) async throws -> Void) async throws {
    try await LaunchLimit.shared.run {
      let tool = try CommandLineTool()
      defer { tool.remove() }
      try await body(tool)
    }
  }

  /// Ends all processes that are left, and fails the test if a node has crashed.
  func remove() {
    for crash in directory.crashes(except: crashingNodes) { Issue.record("\(crash)") }
    for process in directory.processes { process.kill() }
    directory.remove()
  }

  /// Starts a verb of the orchestrator.
  func start(_ arguments: [String], in workingDirectory: String? = "") throws -> LaunchedProgram {
    let line = prefix + [Self.orchestrator] + arguments
    return try start(program: line[0], Array(line.dropFirst()), in: workingDirectory)
  }

  /// Starts a program.
  /// - Parameter workingDirectory: The program's working directory: `""` for the directory of the
  ///   test, `nil` for the directory of the package.
  func start(
    program: String, _ arguments: [String], in workingDirectory: String? = ""
  ) throws -> LaunchedProgram {
    try LaunchedProgram(
      program, arguments, environment: directory.environment(adding: environment),
      directory: workingDirectory == "" ? directory.path : workingDirectory)
  }

  /// Runs a verb of the orchestrator, and waits for its end.
  func run(
    _ arguments: String..., in workingDirectory: String? = "",
    within timeout: Duration = .seconds(20)
  ) async throws -> Result {
    let program = try start(Self.withLongTimeout(arguments), in: workingDirectory)
    return try await result(of: program, within: timeout)
  }

  /// Returns the arguments with a long timeout, unless they already contain a timeout.
  ///
  /// The default timeout of a verb is meant for a person at a terminal. Tests do not need it, since
  /// they end a verb that makes no progress.
  static func withLongTimeout(_ arguments: [String]) -> [String] {
    let option =
      switch arguments.first {
      case "send", "start", "stop", "restart", "apply": "--timeout"
      case "letters",
        "dead-letters" where arguments.contains("resend"):
        "--timeout"
      case "up" where arguments.contains("--wait"): "--wait-timeout"
      default: ""
      }
    guard !option.isEmpty, !arguments.contains(option) else { return arguments }
    return [arguments[0], option, "10m"] + arguments.dropFirst()
  }

  /// Runs a verb of the orchestrator, waits for its end, and expects an exit code.
  @discardableResult
  func run(
    _ arguments: String..., within timeout: Duration = .seconds(20), code: Int32,
    at location: SourceLocation = #_sourceLocation
  ) async throws -> Result {
    try await end(
      of: start(Self.withLongTimeout(arguments)), within: timeout, code: code, at: location)
  }

  /// Waits for the end of a program, and expects an exit code.
  @discardableResult
  func end(
    of program: LaunchedProgram, within timeout: Duration = .seconds(20), code: Int32 = 0,
    at location: SourceLocation = #_sourceLocation
  ) async throws -> Result {
    let result = try await result(of: program, within: timeout)
    #expect(result.code == code, "\(result)", sourceLocation: location)
    return result
  }

  /// Waits for the end of a program.
  func result(
    of program: LaunchedProgram, within timeout: Duration = .seconds(20)
  ) async throws -> Result {
    let exit = try await program.waitForExit(within: timeout)
    if exit == nil { program.signal(.kill) }
    var code: Int32?
    if case .exited(let value)? = exit { code = value }
    return Result(code: code, output: program.outputText, error: program.errorText)
  }

  /// Returns the first out-pipe of the node in the output of `describe NODE -o json`; `nil` if
  /// there is none.
  func out(ofDescribed output: String) throws -> JSONValue? {
    guard case .array(let pages) = try JSONValue(parsing: output.utf8),
      case .array(let outs)? = pages.first?["status"]?["outs"]
    else { return nil }
    return outs.first
  }
}
