import Glibc
import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// A topology that runs in the background, in a directory of one test.
struct DetachedTopology {
  let tool: CommandLineTool
  let name: String
  private let file: String
  /// The deployment file with which the topology was started.
  private var deployment: String?

  /// Starts a topology, and runs a closure as soon as all nodes are running.
  /// - Parameter deployment: The text of the deployment file; `nil` for a topology on one host.
  static func with(
    _ yaml: String, name: String = "ward", deployment: String? = nil,
    _ body: (DetachedTopology) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      var topology = try DetachedTopology(tool: tool, name: name, yaml: yaml)
      if let deployment { try topology.deploy(by: deployment) }
      try await topology.up()
      try await body(topology)
    }
  }

  init(tool: CommandLineTool, name: String, yaml: String) throws {
    self.tool = tool
    self.name = name
    file = name + ".yaml"
    try write(yaml)
  }

  var directories: RuntimeDirectories {
    get throws { try RuntimeDirectories(topology: name, roots: tool.directory.roots) }
  }

  func write(_ yaml: String) throws { try tool.directory.write(yaml, to: file) }

  /// Writes a deployment file, which later starts of the topology use.
  mutating func deploy(by yaml: String) throws {
    deployment = name + "-deployment.yaml"
    try tool.directory.write(yaml, to: name + "-deployment.yaml")
  }

  @discardableResult
  func up() async throws -> String {
    let options = deployment.map { ["--deployment", $0] } ?? []
    let program = try tool.start(CommandLineTool.withLongTimeout(["up", "--wait", file] + options))
    let up = try await tool.result(of: program, within: .seconds(60))
    let logs = try logs()
    try #require(up.code == 0, "\(up)\n\(logs)")
    return up.output
  }

  /// Runs a verb, waits at most a minute for its end, and expects an exit code.
  @discardableResult
  func run(
    _ arguments: String..., code: Int32 = 0, at location: SourceLocation = #_sourceLocation
  ) async throws -> CommandLineTool.Result {
    try await run(arguments, code: code, at: location)
  }

  /// Runs a verb, waits at most a minute for its end, and expects an exit code.
  @discardableResult
  func run(
    _ arguments: [String], code: Int32 = 0, at location: SourceLocation = #_sourceLocation
  ) async throws -> CommandLineTool.Result {
    try await end(
      of: tool.start(CommandLineTool.withLongTimeout(arguments)), code: code, at: location)
  }

  /// Waits for the end of a verb, and expects an exit code.
  @discardableResult
  func end(
    of program: LaunchedProgram, code: Int32 = 0, at location: SourceLocation = #_sourceLocation
  ) async throws -> CommandLineTool.Result {
    try await tool.end(of: program, within: .seconds(60), code: code, at: location)
  }

  func client() throws -> TopologyClient {
    try TopologyClient(
      topology: name, control: directories.endpoint(.control), keys: ClientKeys(in: directories),
      answerTimeout: TopologyHarness.clientTimeout)
  }

  func directory() async throws -> TopologyDirectory {
    let client = try client()
    defer { client.close() }
    return try await client.directory()
  }

  /// Returns the nodes' process ids, by name.
  func pids() async throws -> [String: Int32] {
    var pids: [String: Int32] = [:]
    for node in try await directory().nodes { pids[node.name] = node.pid }
    return pids
  }

  /// Waits until the directory satisfies a condition.
  @discardableResult
  func await(
    _ what: String, within limit: Duration = .seconds(20),
    _ accepts: @escaping (TopologyDirectory) -> Bool
  ) async throws -> TopologyDirectory {
    var last: TopologyDirectory?
    let found: TopologyDirectory? = try await poll(every: .milliseconds(10), within: limit) {
      let directory = try await directory()
      last = directory
      return accepts(directory) ? directory : nil
    }
    let logs = try logs()
    return try #require(found, "\(what); \(String(describing: last))\n\(logs)")
  }

  /// Kills the orchestrator, and waits until the kernel has released the orchestrator's lock.
  func killOrchestrator() async throws {
    try await killOrchestrator(try #require(RunningTopology.find(try directories)?.pid))
  }

  func killOrchestrator(_ pid: Int32) async throws {
    let directories = try directories
    #expect(kill(pid, SIGKILL) == 0)
    let isGone: Bool? = try await poll(within: .seconds(10)) {
      RunningTopology.find(directories) == nil ? true : nil
    }
    #expect(isGone == true)
  }

  /// Returns the ids of those processes that are still running.
  func alive(_ pids: some Sequence<Int32>) -> Set<Int32> {
    Set(pids).intersection(tool.directory.processes.map(\.pid))
  }

  func log(_ node: String) throws -> [String] {
    let path = try directories.logs + "/" + node + ".log"
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return [] }
    defer { close(descriptor) }
    return String(decoding: try FileSystem.read(descriptor), as: UTF8.self)
      .split(separator: "\n").map(String.init)
  }

  /// Returns the orchestrator's log lines, including its notes about nodes.
  func logs() throws -> String {
    var reader = LogReader(directory: try directories.logs)
    return reader.next().filter { $0.stream == .note }
      .map { $0.node == "orchestrator" ? $0.text : "\($0.node): \($0.text)" }
      .joined(separator: "\n")
  }
}
