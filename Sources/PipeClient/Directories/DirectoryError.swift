import PipeSystem

/// Why a topology's directories cannot be used.
package enum DirectoryError: Error, Hashable, Sendable {
  /// A topology's or node's name that cannot be a file's.
  case unsafeName(String)
  /// A socket path over the limit of ``RuntimeDirectories/pathLimit`` bytes.
  case pathTooLong(String)
  /// The directory belongs to another user, or is a link or a file.
  case notOurs(path: String, owner: UInt32?)
  /// An orchestrator holds the topology's lock; its pid where the lock file tells it.
  case alreadyRunning(topology: String, pid: Int32?, file: String?)
  /// A process of the topology lives and has not said which one it is.
  case unknownProcess(record: String)
  /// A directory that cannot be made or written to.
  case unusable(Purpose, SystemError)
  case system(SystemError)

  /// What a directory holds.
  package enum Purpose: Hashable, Sendable {
    /// Logs and journals.
    case state
    /// Sockets.
    case runtime
  }
}

extension DirectoryError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .unsafeName(let name):
      "the name '\(name)' cannot be used for files: use 1 to 64 of A-Z a-z 0-9 _ . -, "
        + "and no dot first"
    case .pathTooLong(let path):
      "the socket path '\(path)' is \(path.utf8.count) bytes long and the system's limit is "
        + "\(RuntimeDirectories.pathLimit): shorten the topology's or the node's name, or set "
        + "PIPERUNTIME_ROOT to a shorter directory"
    case .notOurs(let path, let owner?):
      "'\(path)' belongs to user \(owner) and is not used: remove it, or set XDG_RUNTIME_DIR or "
        + "PIPERUNTIME_ROOT to a directory of yours"
    case .notOurs(let path, nil):
      "'\(path)' is not a directory: remove it, or set PIPERUNTIME_ROOT to another directory"
    case .alreadyRunning(let topology, let pid, let file):
      "topology '\(topology)' is already running"
        + (pid.map { " (pid \($0)\(file.map { ", \($0)" } ?? ""))" } ?? "")
        + ": stop it with `orchestrator down -p \(topology)`, or give this one another name"
    case .unknownProcess(let record):
      "a process that was being started when its orchestrator was killed holds '\(record)' and does "
        + "not say which one it is: end it (see 'fuser \(record)'), and try again"
    case .unusable(let purpose, let error):
      "there is no place for \(purpose.contents): '\(error.subject ?? "?")' cannot be "
        + (error.call == "mkdir" ? "made" : "written to")
        + " (\(SystemError.text(of: error.code))); make it writable, or name another place with "
        + "\(purpose.variable) or PIPERUNTIME_ROOT"
    case .system(let error): error.description
    }
  }
}

extension DirectoryError.Purpose {
  fileprivate var contents: String {
    switch self {
    case .state: "logs and journals"
    case .runtime: "sockets"
    }
  }

  fileprivate var variable: String {
    switch self {
    case .state: "XDG_STATE_HOME"
    case .runtime: "XDG_RUNTIME_DIR"
    }
  }
}
