import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// A run that was recorded in a directory.
package struct RecordedRun {
  /// The step log of one process of a node.
  struct Log {
    let path: String
    let header: StepLogHeader

    /// The name of the file.
    var name: String { String(path.split(separator: "/").last ?? "") }
  }

  package let directory: String
  package let description: RunDescription
  /// The logs of each node, in the order of the node's incarnations.
  let logsByNode: [String: [Log]]

  /// Reads a directory, and the first line of each log.
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
      let path = "\(directory)/\(name)"
      do throws(StepLogError) {
        // A process that was killed before it wrote the first line has taken no step.
        guard let header = try StepLogReader(path).header else { continue }
        logsByNode[header.node, default: []].append(Log(path: path, header: header))
      } catch { throw .invalidLog(error) }
    }
    guard !logsByNode.isEmpty else { throw .noSteps(directory) }
    self.logsByNode = logsByNode.mapValues {
      $0.sorted { $0.header.incarnation < $1.header.incarnation }
    }
  }
}

/// The fingerprint of a program's file, which shows whether a run was recorded with the same build.
package enum ProgramFingerprint {
  /// Returns the fingerprint; `nil` if the file cannot be read.
  package static func make(of path: String) -> String? {
    guard let bytes = FileSystem.contents(of: path, limit: .max) else { return nil }
    let hash = bytes.withUnsafeBytes { FNV.hash64(of: $0) }
    return "\(bytes.count)-" + String(hash, radix: 16)
  }
}

/// The reason why a directory cannot be read as a recorded run.
package enum RecordedRunError: Error, Hashable, Sendable {
  case notFound(String)
  case noDescription(String)
  case otherVersion(String, Int)
  case noSteps(String)
  case invalidLog(StepLogError)
  /// The topology file has changed since the run was recorded.
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
        + "format \(RunDescription.currentVersion); use the version that recorded the run"
    case .noSteps(let directory):
      "the run '\(directory)' has no step log: no node of the topology was started"
    case .invalidLog(let error): "\(error)"
    case .otherTopology(let file, let run):
      "'\(file)' has changed since the run was recorded; restore the file from "
        + "'\(run)/\(RunDirectory.topologyFile)'"
    }
  }
}
