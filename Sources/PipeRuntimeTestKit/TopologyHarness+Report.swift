import PipeClient
import PipeRuntime
import PipeSupervision

extension TopologyHarness {
  /// Lines of a log shown in a report. Unit: lines.
  private static let shown = 12

  /// The lines that a node has written and that were written about it, oldest first.
  public func logs(_ node: String) -> [String] {
    var reader = LogReader(directory: directories.logs, nodes: [node])
    return reader.next().map { "\($0.time) \($0.stream.rawValue) \($0.text)" }
  }

  /// What the orchestrator has written.
  public var orchestratorOutput: String { orchestrator.outputText + orchestrator.errorText }

  /// Makes a call of the test's, and remembers where in the test it stands when it throws an error.
  func at<Result>(
    _ fileID: String, _ filePath: StaticString, _ line: UInt, _ column: UInt,
    isolation: isolated (any Actor)? = #isolation, _ call: () async throws -> Result
  ) async throws -> Result {
    do {
      return try await call()
    } catch {
      let place = SourcePlace(fileID: fileID, filePath: filePath, line: line, column: column)
      state.withLock { $0.failedCall = FailedCall(error: "\(error)", place: place) }
      throw error
    }
  }

  /// Where in the test the call stands that threw an error; `nil` where no call of the harness did.
  func place(of error: any Error) -> SourcePlace? {
    let text = "\(error)"
    return state.withLock { $0.failedCall.flatMap { $0.error == text ? $0.place : nil } }
  }

  /// How the nodes are, and the last lines of every log: what a failure shows.
  public func report() async -> String {
    var lines: [String] = []
    if let directory = try? await client.directory(fresh: false) {
      lines.append("topology '\(topology)' is \(directory.phase):")
      for node in directory.nodes {
        let reason = node.reason.map { ": \($0)" } ?? ""
        lines.append("  \(node.name) is \(node.phase), start \(node.incarnation)\(reason)")
      }
    }
    for node in LogReader.nodes(in: directories.logs) {
      let log = logs(node)
      lines.append("log of '\(node)'\(log.count > Self.shown ? ", its end" : ""):")
      lines += log.suffix(Self.shown).map { "  \($0)" }
    }
    lines.append(Self.report(of: orchestrator))
    return lines.joined(separator: "\n")
  }

  static func report(of orchestrator: LaunchedProgram) -> String {
    let written = (orchestrator.outputText + orchestrator.errorText)
      .split(separator: "\n").suffix(2 * shown)
    let end = orchestrator.exit.map { "ended with \($0), and wrote" } ?? "runs, and wrote"
    return (["the orchestrator \(end):"] + written.map { "  \($0)" }).joined(separator: "\n")
  }

  /// - Parameter stall: What ended the wait for it.
  func failure(
    _ expectation: String, of node: String? = nil, after stall: Stall? = nil
  ) async -> TopologyExpectationFailure {
    let report = await report()
    return TopologyExpectationFailure(
      expectation: expectation, seen: node.map(history.states(of:)) ?? [],
      report: (stall.map { "\($0)\n" } ?? "") + report)
  }
}

/// A topology did not do what a test expected of it: what that was, what was seen, the last logs.
public struct TopologyExpectationFailure: Error, Sendable, CustomStringConvertible {
  /// What was expected.
  public var expectation: String
  /// Where in the test the call stands that failed, as `FILE:LINE:COLUMN`; `nil` where no call on the harness did.
  public var location: String?
  /// The error that ended the test's body, where it was not an expectation that did.
  public var cause: (any Error)?
  /// The states that were seen of the node that it is about, oldest first.
  public var seen: [StateChange]
  /// How the topology was when it failed, with the last lines of its logs.
  public var report: String

  /// The states shown in `description`. Unit: states.
  private static let shown = 30

  /// The expectation, what was seen, and the report.
  public var description: String {
    var lines = [(location.map { "\($0): " } ?? "") + expectation]
    if !seen.isEmpty {
      lines.append("states seen of '\(seen[0].node)':")
      if seen.count > Self.shown { lines.append("  … \(seen.count - Self.shown) earlier ones") }
      for change in seen.suffix(Self.shown) {
        let missed = change.missed > 0 ? ", after \(change.missed) that were missed" : ""
        lines.append(
          "  \(change.incarnation).\(change.version) \(change.state.text) "
            + "(\(change.cause)\(missed))")
      }
    }
    if !report.isEmpty { lines.append(report) }
    return lines.joined(separator: "\n")
  }
}
