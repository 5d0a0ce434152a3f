import Glibc
import PipeMachines
import PipeSystem
import PipeWire

/// An error that makes a journal unusable. The description names the file and a remedy.
package enum JournalError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The file does not exist.
  case missing(path: String, node: String)
  /// The file, or its directory, cannot be opened or written.
  case inaccessible(path: String, node: String, reason: String)
  /// The disk is full.
  case full(path: String)
  /// The file is not a journal, or its pages are inconsistent.
  case damaged(path: String, node: String, reason: String)
  /// The tables have a version that this program does not read.
  case otherVersion(path: String, node: String, found: Int64)
  /// The journal belongs to another topology, node or machine.
  case mismatch(path: String, node: String, attribute: String, found: String, expected: String)
  /// The machine's state type cannot decode the recorded state.
  case undecodable(path: String, node: String, problem: String)
  /// The recorded state exceeds the maximum size of a message. Only an earlier version of this
  /// library can have recorded such a state.
  case stateTooLarge(path: String, node: String, byteCount: Int)
  /// A running process has locked the journal.
  case locked(path: String, pid: Int32?)
  /// A later incarnation of the node has opened the journal, perhaps on another host.
  case superseded(path: String, incarnation: UInt64, by: UInt64)
  /// Any other SQLite error.
  case failed(path: String, reason: String)

  /// Whether another attempt to use the journal may succeed.
  package var isTransient: Bool {
    switch self {
    case .full, .failed, .locked: true
    case .missing, .inaccessible, .damaged, .otherVersion, .mismatch, .undecodable, .stateTooLarge,
      .superseded:
      false
    }
  }

  /// The exit code of a node that ends because of this error.
  package var exitCode: Int32 {
    switch self {
    case .full: NodeHandshake.diskFullCode
    case .missing, .inaccessible, .damaged, .otherVersion, .mismatch, .undecodable, .stateTooLarge,
      .locked, .superseded, .failed:
      EXIT_FAILURE
    }
  }

  package var description: String {
    switch self {
    case .missing(let path, let node):
      "node '\(node)' has no journal: no such file '\(path)'; the durability of the node is "
        + "'none', or the node has never run, or was reset"
    case .inaccessible(let path, _, let reason):
      "the journal '\(path)' cannot be used: \(reason); correct the problem, and start the node "
        + "again"
    case .full(let path):
      "the journal '\(path)' cannot be written: the disk is full; no accepted event is lost; free "
        + "disk space, and the node continues"
    case .damaged(let path, let node, let reason):
      "the journal '\(path)' is damaged: \(reason); restore a copy of the journal, or reset the "
        + "node with 'orchestrator reset \(node)'"
    case .otherVersion(let path, let node, let found):
      "the journal '\(path)' has tables of version \(found), but this program reads version "
        + "\(JournalSchema.version); run the program that wrote the journal, or reset the node "
        + "with 'orchestrator reset \(node)'"
    case .mismatch(let path, let node, let attribute, let found, let expected):
      "the journal '\(path)' belongs to \(attribute) '\(found)', not to '\(expected)'; correct the "
        + "topology, or reset the node with 'orchestrator reset \(node)'"
    case .undecodable(let path, let node, let problem):
      "the journal '\(path)' was written by another version of the machine: \(problem); run that "
        + "version, or reset the node with 'orchestrator reset \(node)'"
    case .stateTooLarge(let path, let node, let byteCount):
      "the journal '\(path)' has a state of \(byteCount) bytes as JSON, which exceeds the limit of "
        + "a message; reset the node with 'orchestrator reset \(node)'"
    case .locked(let path, let pid):
      "the journal '\(path)' is in use by process \(pid.map(String.init) ?? "?"), an earlier "
        + "incarnation of the node; end this process first"
    case .superseded(let path, let incarnation, let later):
      "the journal '\(path)' belongs to incarnation \(later) of the node, so incarnation "
        + "\(incarnation) must end; if another orchestrator runs the topology with the same "
        + "'journals', end one of the orchestrators"
    case .failed(let path, let reason): "the journal '\(path)': \(reason)"
    }
  }

  /// Returns the error for a recorded value that the machine cannot read.
  /// - Parameter what: The noun for the value in the message, such as "the state".
  package static func undecodable(
    _ error: any Error, in journal: Journal?, node: String, what: String
  ) -> JournalError {
    .undecodable(
      path: journal?.path ?? "", node: node,
      problem: error is MigrationError ? "\(error)" : "\(what) \(error)")
  }

  init(_ error: any Error, path: String, node: String) {
    if let error = error as? UnreadableRecord {
      self = .damaged(path: path, node: node, reason: error.description)
      return
    }
    if let error = error as? UnreadableState {
      self = .damaged(path: path, node: node, reason: error.description)
      return
    }
    guard let error = error as? DatabaseError else {
      if error.isDiskFull {
        self = .full(path: path)
        return
      }
      self = error as? JournalError ?? .failed(path: path, reason: "\(error)")
      return
    }
    switch error.kind {
    case .full: self = .full(path: path)
    case .damaged: self = .damaged(path: path, node: node, reason: error.description)
    case .readOnly, .cannotOpen:
      self = .inaccessible(path: path, node: node, reason: Self.reason(path) ?? error.description)
    case .busy:
      self = .failed(
        path: path,
        reason:
          "\(error.description); another process has opened the journal; the journal of a node "
          + "that may move to another host cannot be read while the node is running")
    case .other: self = .failed(path: path, reason: error.description)
    }
  }

  /// Returns the reason why the file cannot be opened: a condition of the file or its directory or,
  /// if both are accessible, the text of the error code.
  static func reason(_ path: String, code: Int32) -> String {
    reason(path) ?? SystemError.text(of: code)
  }

  /// Returns why the file or its directory is not accessible; `nil` if both are accessible.
  private static func reason(_ path: String) -> String? {
    let directory = FileSystem.parentDirectory(of: path)
    if FileSystem.exists(directory), !FileSystem.isDirectory(directory) {
      return "'\(directory)': \(SystemError.text(of: ENOTDIR))"
    }
    for (file, mode) in [(directory, W_OK | X_OK), (path, R_OK | W_OK)] {
      guard access(file, mode) != 0 else { continue }
      if errno == ENOENT, file == path { continue }
      var status = stat()
      let owner =
        stat(file, &status) == 0 && status.st_uid != geteuid()
        ? "; the owner is user \(status.st_uid), and this process runs as user \(geteuid())" : ""
      _ = access(file, mode)
      return "'\(file)': \(SystemError.text(of: errno))\(owner)"
    }
    return nil
  }
}
