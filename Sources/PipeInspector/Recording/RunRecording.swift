import PipeMachines
import PipeSystem
import PipeWire

/// A recorded run. The orchestrator reads its logs and computes its states, and the page shows them.
package final class RunRecording: PageDataSource {
  package let recorder: InspectionRecorder
  package let endOfRun: Int64?
  /// The name of the topology.
  let name: String
  private let directory: String
  private let incarnations: [String: UInt64]
  private let stateCharts: StateChartReader

  /// Reads a run. Keeps its last records, up to a capacity.
  /// - Parameter capacity: The capacity for steps and refused events. Unit: bytes.
  /// - Throws: ``RunReadingError``, or ``InspectionRequestError`` if the orchestrator cannot be
  ///   started.
  package init(directory: String, capacity: Int = 64 << 20) throws {
    let recorder = InspectionRecorder(capacity: capacity)
    var lastLine: [UInt8] = []
    let code = try ProgramOutput.readLines(
      ProgramOutput.orchestrator, ["replay", "--page", "--", directory]
    ) { line in
      // The last line is the summary.
      if !lastLine.isEmpty { try Self.record(lastLine, in: recorder) }
      lastLine = Array(line)
    }
    guard code == 0, let summary = try? JSONRecord.decode(RunPageSummary.self, from: lastLine)
    else { throw RunReadingError(code: code == 0 ? 1 : code) }
    self.recorder = recorder
    self.directory = directory
    (name, endOfRun) = (summary.directory.topology, summary.ended)
    incarnations = Dictionary(
      summary.directory.nodes.map { ($0.name, $0.incarnation) }, uniquingKeysWith: { one, _ in one }
    )
    stateCharts = StateChartReader(file: summary.directory.file)
    recorder.set("topology", summary.inspectionRecord)
  }

  private static let statePrefix = Array(#"{"is":"state","#.utf8)

  private static func record(_ line: [UInt8], in recorder: InspectionRecorder) throws {
    guard line.starts(with: statePrefix) else {
      if !recorder.append(line) { recorder.append(try placeholder(for: JSONValue(parsing: line))) }
      return
    }
    let record = try JSONValue(parsing: line)
    let node = record["node"]?.string ?? ""
    let change = StateChange(
      node: node, incarnation: UInt64(record["incarnation"]?.integer ?? 0),
      version: UInt64(record["version"]?.integer ?? 0), time: record["time"]?.integer ?? 0,
      cause: record["cause"]?.string ?? "", state: record["state"] ?? .null)
    recorder.set("node \(node)", change.inspectionRecord)
  }

  /// Returns a record that stands for a step or a refused event that is too large to be shown.
  private static func placeholder(for record: JSONValue) -> JSONValue {
    guard case .object(let members) = record else { return .null }
    var kept = members.filter {
      ["node", "incarnation", "version", "time", "index", "cause", "source", "transaction"]
        .contains($0.key)
    }
    kept["large"] = .integer(Int64(record.bytes.count))
    if members["refused"] != nil { kept["refused"] = "too large to be shown" }
    return .object(kept)
  }

  package func answer(_ request: InspectionRequest) async throws -> JSONValue {
    switch request {
    case .chart(let node):
      return try await stateCharts.chart(of: node, incarnation: incarnations[node] ?? 0)
    case .state(let node):
      throw InspectionRequestError(
        "the page of a recorded run does not keep large states; 'orchestrator replay \(directory) "
          + "--to \(node)@VERSION -o json' shows the state after a step")
    case .machine, .enabled, .deadLetters, .send, .control, .deadLetter:
      throw InspectionRequestError(
        "this page shows a recorded run, and no node runs; 'orchestrator web' without a directory "
          + "serves the page of a running topology")
    }
  }
}

/// The orchestrator could not read a run, and has written the reason to standard error.
package struct RunReadingError: Error, Hashable {
  /// The exit code of the orchestrator.
  package let code: Int32
}

extension RunPageSummary {
  /// The record of the topology for the page.
  fileprivate var inspectionRecord: JSONValue {
    guard
      case .object(var record) = directory.inspectionRecord(composites.map { ($0.name, $0.nodes) })
    else { return .null }
    record["run"] = [
      "directory": .string(run), "started": .integer(started), "ended": .integer(ended),
      "notes": .array(notes.map { ["node": .string($0.node), "text": .string($0.text)] }),
    ]
    return .object(record)
  }
}
