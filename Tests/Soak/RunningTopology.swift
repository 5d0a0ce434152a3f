import PipeRuntime
import PipeRuntimeTestKit

/// A topology of the soak under the real orchestrator, in a directory of its own.
final class RunningTopology: Sendable {
  let client: TopologyClient
  let directory: TestDirectory
  let directories: RuntimeDirectories
  private let orchestrator: LaunchedProgram
  private let guardian: LaunchedProgram

  /// The longest start, and the longest end.
  private static let limit: Duration = .seconds(60)

  /// Starts a topology; returns when an orchestrator answers.
  init(_ topology: Topology, in directory: TestDirectory) async throws {
    self.directory = directory
    directories = try RuntimeDirectories(topology: topology.name, roots: directory.roots)
    let control = try directories.endpoint(.control)
    let file = try directory.write(topology.yaml, to: "topology.yaml")
    orchestrator = try LaunchedProgram(
      try BinaryLocator.find("orchestrator", variable: "PIPERUNTIME_ORCHESTRATOR"),
      ["run", "--plain", "--lifeline", file], environment: directory.environment())
    do {
      guardian = try directory.removeAfterCrash(and: orchestrator.pid)
    } catch {
      orchestrator.signal(.kill)
      throw error
    }
    do {
      let path = String(control.dropFirst("ipc://".count))
      let (orchestrator, limit) = (orchestrator, Self.limit)
      let isThere: Bool? = try await poll(within: limit) {
        if orchestrator.exit != nil { throw SoakFailure("the orchestrator did not start") }
        return FileSystem.exists(path) ? true : nil
      }
      guard isThere != nil else { throw SoakFailure("the orchestrator has no socket") }
      client = try TopologyClient(
        topology: topology.name, control: control, answerTimeout: .seconds(30))
    } catch {
      orchestrator.signal(.kill)
      _ = try? await orchestrator.waitForExit(within: .seconds(10))
      guardian.closeInput()
      throw SoakFailure("\(error)\n\(orchestrator.outputText)\(orchestrator.errorText)")
    }
  }

  /// Waits until every node runs at the same time.
  func waitUntilRunning() async throws {
    let isRunning: Bool? = try await poll(every: .milliseconds(5), within: Self.limit) {
      try await client.directory(fresh: false).isRunning ? true : nil
    }
    guard isRunning != nil else {
      throw SoakFailure("the topology does not run after \(Self.limit.shortText)")
    }
  }

  /// Stops the topology in order.
  /// - Returns: What was not as it should be.
  func stop() async -> [String] {
    var problems: [String] = []
    if let exit = orchestrator.exit {
      problems.append("the orchestrator ended before the round: \(exit)")
    } else {
      orchestrator.signal(.terminate)
      switch try? await orchestrator.waitForExit(within: Self.limit) {
      case .some(let exit) where exit.isSuccess: break
      case .some(let exit):
        let reason = orchestrator.errorText.split(separator: "\n").last ?? "no reason given"
        problems.append("the topology did not stop in order: \(exit), \(reason)")
      case nil:
        problems.append("the topology did not stop within \(Self.limit.shortText)")
        orchestrator.signal(.kill)
        _ = try? await orchestrator.waitForExit(within: .seconds(10))
      }
    }
    client.close()
    problems += directory.crashes()
    // What is killed with its parent is gone only a moment after it.
    _ = try? await poll(every: .milliseconds(10), within: .seconds(2)) {
      directory.processes.isEmpty ? true : nil
    }
    let left = directory.processes
    problems += left.map { "left behind: \($0)" } + directory.sockets.map { "left behind: \($0)" }
    for process in left { process.kill() }
    return problems
  }

  /// Removes the directory, or keeps it for who must find out what was wrong.
  func finish(keeping isKept: Bool) async {
    if isKept {
      _ = try? directory.write(
        orchestrator.outputText + orchestrator.errorText, to: "orchestrator.out")
      guardian.signal(.kill)
    } else {
      directory.remove()
      guardian.closeInput()
    }
    _ = try? await guardian.waitForExit(within: .seconds(10))
  }
}
