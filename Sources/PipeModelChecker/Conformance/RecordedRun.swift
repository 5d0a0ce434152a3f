import PipeMachines
import PipeSystem
import PipeWire

/// A run that was recorded in a directory.
package struct RecordedRun {
  /// The step log of one process of a node.
  struct Log {
    let path: String
    let node: String
    let incarnation: UInt64
    /// The version and the state in which the process began.
    let first: (version: UInt64, state: JSONValue)
    /// The lines after the first.
    var lines: [StepLogLine]
    /// Whether the process has ended gracefully.
    let hasEnded: Bool
  }

  package let directory: String
  package let description: RunDescription
  /// The logs of each node, in the order of the node's incarnations.
  let logsByNode: [String: [Log]]

  /// Reads a directory.
  package init(readingFrom directory: String) throws(RecordedRunError) {
    guard FileSystem.isDirectory(directory) else { throw .notFound(directory) }
    let file = "\(directory)/\(RunDirectory.descriptionFile)"
    guard let bytes = FileSystem.contents(of: file),
      let description = try? JSONRecord.decode(RunDescription.self, from: bytes)
    else { throw .noDescription(directory) }
    guard description.version == RunDescription.currentVersion else {
      throw .otherVersion(directory, description.version)
    }
    self.directory = directory
    self.description = description
    var logsByNode: [String: [Log]] = [:]
    for name in FileSystem.entryNames(of: directory).sorted()
    where name.hasSuffix(RunDirectory.stepLogSuffix) {
      if let log = try Self.log("\(directory)/\(name)") {
        logsByNode[log.node, default: []].append(log)
      }
    }
    guard !logsByNode.isEmpty else { throw .noSteps(directory) }
    self.logsByNode = logsByNode.mapValues { $0.sorted { $0.incarnation < $1.incarnation } }
  }

  /// - Returns: The log; `nil` if the process was killed before it wrote the first line.
  private static func log(_ path: String) throws(RecordedRunError) -> Log? {
    guard let bytes = FileSystem.contents(of: path, limit: .max) else { throw .unreadable(path) }
    var lines: [StepLogLine] = []
    // The last line is incomplete if the process was killed while it wrote the line.
    var rest = bytes[...]
    while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
      do {
        lines.append(try JSONRecord.decode(StepLogLine.self, from: Array(rest[..<end])))
      } catch {
        throw .malformed(path, line: lines.count + 1)
      }
      rest = rest[(end + 1)...]
    }
    guard let first = lines.first else { return nil }
    guard let state = first.begins else { throw .malformed(path, line: 1) }
    let hasEnded = lines.last?.ended == true
    return Log(
      path: path, node: first.node, incarnation: first.incarnation, first: (first.version, state),
      lines: lines.dropFirst().filter { $0.ended != true }, hasEnded: hasEnded)
  }
}

/// The reason why a directory cannot be read as a recorded run.
package enum RecordedRunError: Error, Hashable, Sendable {
  case notFound(String)
  case noDescription(String)
  case otherVersion(String, Int)
  case noSteps(String)
  case unreadable(String)
  /// A line of a step log is not valid.
  case malformed(String, line: Int)
  /// The topology file is not the file of the run.
  case otherTopology(file: String, run: String)
}

extension RecordedRunError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .notFound(let directory): "no such directory '\(directory)'"
    case .noDescription(let directory):
      "'\(directory)' is not a recorded run: it has no valid file '\(RunDirectory.descriptionFile)'; "
        + "record a run with 'orchestrator record FILE --out DIR'"
    case .otherVersion(let directory, let version):
      "the run '\(directory)' has format \(version), and this version of the orchestrator reads "
        + "format \(RunDescription.currentVersion)"
    case .noSteps(let directory):
      "the run '\(directory)' has no step log: no node of the topology was started"
    case .unreadable(let path): "cannot read '\(path)'"
    case .malformed(let path, let line): "\(path):\(line): the line is not valid JSON of a step log"
    case .otherTopology(let file, let run):
      "'\(file)' has changed since the run was recorded; restore the file from "
        + "'\(run)/\(RunDirectory.topologyFile)'"
    }
  }
}
