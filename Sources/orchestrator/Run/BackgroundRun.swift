import Glibc
import PipeClient
import PipeRuntime
import PipeSupervision

/// Starts a run in a separate process, and reports the progress of its start.
struct BackgroundRun {
  var file: String
  var name: String?
  /// The deployment file; `nil` if all nodes are on one host.
  var deployment: String?
  /// The nodes to start; all nodes if the list is empty.
  var nodes: [String] = []
  /// Whether the dependencies of ``nodes`` are started as well.
  var startsDependencies = true
  /// The maximum wait until all nodes are running. If `nil`, the command returns as soon as the
  /// processes of the nodes are launched.
  var waitTimeout: Duration?

  /// The maximum time for checking the file and launching the nodes.
  private static let launchTimeout: Duration = .seconds(60)

  func start(console: Console) throws -> ExitCode {
    var arguments = ["run", file, "--background"]
    if let name { arguments += ["--name", name] }
    if let deployment { arguments += ["--deployment", deployment] }
    if !startsDependencies { arguments.append("--no-deps") }
    arguments += nodes
    guard let executable = OwnProcess.executablePath else {
      throw CommandError("cannot determine the path of this executable")
    }
    // The helpers of a node end together with the node. So if a node starts this run, the run must
    // not be mistaken for a helper of the node.
    let environment = ProcessEnvironment.current.filter { $0.key != HelperProcesses.markerVariable }
    var child = try ChildProcess.spawn(
      ChildCommand(
        path: executable, arguments: arguments, environment: environment,
        deathSignal: nil, leadsSession: true))
    defer { child.closePipes() }
    return try follow(&child, console: console)
  }

  private func follow(_ child: inout ChildProcess, console: Console) throws -> ExitCode {
    let deadline = ContinuousClock.now + (waitTimeout ?? Self.launchTimeout)
    var output = LogLineSplitter()
    var errors = LogLineSplitter()
    var topology = file
    var waitingNodes: [String: String] = [:]
    var openDescriptors: Set<Int32> = [child.outputDescriptor, child.errorDescriptor]
    while !openDescriptors.isEmpty {
      for (descriptor, bytes) in PipeReader.readAvailable(&openDescriptors, until: deadline) {
        if descriptor == child.errorDescriptor {
          for line in errors.append(bytes) { console.note(line) }
          continue
        }
        for line in output.append(bytes) {
          guard let message = Self.message(line) else { continue }
          switch message {
          case .launched(let name):
            topology = name
            if waitTimeout == nil { return try started(topology, "started", child.pid, console) }
          case .running(let started, let adopted):
            let nodes = adopted.counted("node")
            let phase = "\(started.isComplete ? "" : "partly ")running"
            let code = try self.started(
              topology, adopted > 0 ? "\(phase), \(nodes) adopted" : phase, child.pid, console)
            guard let shortfall = started.shortfall else { return code }
            console.error(
              "\(topology): \(shortfall); 'orchestrator status -p \(topology)' shows "
                + "details, 'orchestrator down -p \(topology)' stops the other nodes")
            return .failure
          case .problem(let text): console.note(text)
          case .waiting(let node, let blocker): waitingNodes[node] = blocker
          case .ended(let code, let reason):
            if let reason { console.error("\(topology): \(reason)") }
            return ExitCode(rawValue: code)
          }
        }
      }
      if ContinuousClock.now >= deadline {
        console.error(
          "timed out: topology '\(topology)' is not running after "
            + "\((waitTimeout ?? Self.launchTimeout).shortText)"
            + Self.waitingNodesText(waitingNodes)
            + "; the topology continues to start; 'orchestrator status' shows details, "
            + "'orchestrator down' stops the topology")
        return .timedOut
      }
    }
    if let unfinishedLine = errors.finish() { console.note(unfinishedLine) }
    switch child.wait() {
    case .exited(let code): return ExitCode(rawValue: code)
    case let exit:
      throw CommandError("the orchestrator ended: \(exit.map { "\($0)" } ?? "?")")
    }
  }

  private func started(
    _ topology: String, _ phase: String, _ pid: Int32, _ console: Console
  ) throws -> ExitCode {
    try console.print("\(topology): \(phase), orchestrator pid \(pid)")
    if deployment != nil, let directories = try? RuntimeDirectories(topology: topology),
      let remote = try? RemoteTopology(key: directories.clientKeyFile), !remote.isOnLoopback
    {
      console.note(
        "the orchestrator listens at \(remote.endpoint) for clients on other hosts; they "
          + "need a copy of \(directories.clientKeyFile)")
    }
    return .success
  }

  /// Returns a list of up to five waiting nodes and their reasons, such as `: 'motor' waits for
  /// 'door' to be closed`.
  private static func waitingNodesText(_ reasonsByNode: [String: String]) -> String {
    guard !reasonsByNode.isEmpty else { return "" }
    let listed = reasonsByNode.sorted { $0.key < $1.key }.prefix(5)
      .map { "'\($0.key)' waits for \($0.value)" }
    let omitted =
      reasonsByNode.count > 5 ? "; \(reasonsByNode.count - 5) more nodes are waiting" : ""
    return ": " + listed.joined(separator: "; ") + omitted
  }

  private static func message(_ line: String) -> BackgroundReporter.Message? {
    try? JSONRecord.decode(BackgroundReporter.Message.self, from: Array(line.utf8))
  }
}
