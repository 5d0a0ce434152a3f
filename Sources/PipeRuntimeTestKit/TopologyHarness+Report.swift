import PipeClient
import PipeRuntime
import PipeSupervision

extension TopologyHarness {
  /// The maximum number of lines of each log in a report.
  private static let displayLimit = 12

  /// Returns the log lines of a node, and the orchestrator's notes about the node, oldest first.
  public func logs(_ node: String) -> [String] {
    var reader = LogReader(directory: directories.logs, nodes: [node])
    return reader.next().map { "\($0.time) \($0.stream.rawValue) \($0.text)" }
  }

  /// The text that the orchestrator has written to standard output and standard error so far.
  public var orchestratorOutput: String { orchestrator.outputText + orchestrator.errorText }

  /// Makes a call for the test. If the call throws an error, stores the location of the call in the
  /// test's source.
  func storingCallSite<Result>(
    _ fileID: String, _ filePath: StaticString, _ line: UInt, _ column: UInt,
    isolation: isolated (any Actor)? = #isolation, _ call: () async throws -> Result
  ) async throws -> Result {
    do {
      return try await call()
    } catch {
      let callSite = AssertionLocation(
        fileID: fileID, filePath: filePath, line: line, column: column)
      state.withLock { $0.failedCall = FailedCall(error: "\(error)", callSite: callSite) }
      throw error
    }
  }

  /// Returns the location of the harness call that has thrown this error. Returns `nil` if the
  /// error comes from elsewhere.
  func callSite(of error: any Error) -> AssertionLocation? {
    let text = "\(error)"
    return state.withLock { $0.failedCall.flatMap { $0.error == text ? $0.callSite : nil } }
  }

  /// Returns a text for failure messages: the statuses of the nodes, the last lines of their logs,
  /// and the last output of the orchestrator.
  public func report() async -> String {
    var lines: [String] = []
    if let directory = try? await client.directory(fresh: false) {
      lines.append("topology '\(topology)' is \(directory.phase):")
      for node in directory.nodes {
        let reason = node.reason.map { ": \($0)" } ?? ""
        lines.append("  \(node.name) is \(node.phase), incarnation \(node.incarnation)\(reason)")
      }
    }
    for node in LogReader.nodesWithLogs(in: directories.logs) {
      let log = logs(node)
      lines.append("log of '\(node)'\(log.count > Self.displayLimit ? ", last lines" : ""):")
      lines += log.suffix(Self.displayLimit).map { "  \($0)" }
    }
    lines.append(Self.report(of: orchestrator))
    return lines.joined(separator: "\n")
  }

  static func report(of orchestrator: LaunchedProgram) -> String {
    let outputLines = (orchestrator.outputText + orchestrator.errorText)
      .split(separator: "\n").suffix(2 * displayLimit)
    let end = orchestrator.exit.map { "ended with \($0); output" } ?? "is running; output"
    return (["the orchestrator \(end):"] + outputLines.map { "  \($0)" }).joined(separator: "\n")
  }

  /// Creates the failure of an expectation, with the recorded states of `node` and a report.
  /// - Parameter stall: The stall that ended the wait; `nil` if the failure has a different reason.
  func failure(
    _ expectation: String, of node: String? = nil, after stall: Stall? = nil
  ) async -> TopologyExpectationFailure {
    let report = await report()
    return TopologyExpectationFailure(
      expectation: expectation, recordedStates: node.map(history.states(of:)) ?? [],
      report: (stall.map { "\($0)\n" } ?? "") + report)
  }
}

/// The failure of an expectation, with the recorded states and a report on the topology.
public struct TopologyExpectationFailure: Error, Sendable, CustomStringConvertible {
  /// The expectation that was not met, as text.
  public var expectation: String
  /// The location of the failed call in the test's source, in the form `FILE:LINE:COLUMN`. `nil` if
  /// the failure did not occur in a call of the harness.
  public var location: String?
  /// The error that the test's body has thrown; `nil` if a failed expectation ended the body.
  public var cause: (any Error)?
  /// The recorded states of the node, oldest first. Empty if the failure is not about a node.
  public var recordedStates: [StateChange]
  /// The status of the topology when the expectation failed, with the last lines of its logs.
  public var report: String

  /// The maximum number of states that `description` lists.
  private static let displayLimit = 30

  /// The expectation, the recorded states, and the report.
  public var description: String {
    var lines = [(location.map { "\($0): " } ?? "") + expectation]
    if !recordedStates.isEmpty {
      lines.append("states of '\(recordedStates[0].node)':")
      if recordedStates.count > Self.displayLimit {
        lines.append("  … \(recordedStates.count - Self.displayLimit) earlier states")
      }
      for change in recordedStates.suffix(Self.displayLimit) {
        let missed = change.missedCount > 0 ? ", after \(change.missedCount) missed states" : ""
        lines.append(
          "  \(change.incarnation).\(change.version) \(change.state.text) "
            + "(\(change.cause)\(missed))")
      }
    }
    if !report.isEmpty { lines.append(report) }
    return lines.joined(separator: "\n")
  }
}
