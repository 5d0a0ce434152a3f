import Glibc
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The directories that contain the sockets and the state of all topologies of a user.
package struct RuntimeRoots: Hashable, Sendable {
  /// The directory that contains, for each running topology, a directory of sockets.
  package let runtime: String
  /// The directory that contains, for each topology, a directory of logs and journals.
  package let state: String
  /// The reason why `runtime` is not in the user's `XDG_RUNTIME_DIR`; `nil` if `runtime` is in that
  /// directory, or if `PIPERUNTIME_ROOT` is set.
  package let fallback: Fallback?

  /// The reason why the sockets are in `/tmp` instead of `XDG_RUNTIME_DIR`.
  package enum Fallback: Hashable, Sendable {
    case unset
    /// `XDG_RUNTIME_DIR` is not a directory of this user.
    case foreign(String)
  }

  /// Selects the directories by environment variables: `PIPERUNTIME_ROOT` if it is set, otherwise
  /// the XDG directories, otherwise `/tmp` and the home directory.
  package init(environment: [String: String] = ProcessEnvironment.current, user: uid_t = geteuid())
  {
    func variable(_ name: String) -> String? {
      environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }
    if let root = variable("PIPERUNTIME_ROOT").map(FileSystem.absolutePath) {
      runtime = root + "/run"
      state = root + "/state"
      self.fallback = nil
      return
    }
    let temporary = "/tmp/piperuntime-\(user)"
    let login = variable("XDG_RUNTIME_DIR")
    // After `su`, `XDG_RUNTIME_DIR` names a directory that belongs to another user or does not
    // exist.
    if let login, login.hasPrefix("/"), OwnedDirectory.owner(of: login) == user {
      runtime = login + "/piperuntime"
      fallback = nil
    } else {
      runtime = temporary
      fallback = login.map { .foreign($0) } ?? .unset
    }
    if let directory = variable("XDG_STATE_HOME"), directory.hasPrefix("/") {
      state = directory + "/piperuntime"
    } else if let home = variable("HOME"), home.hasPrefix("/") {
      state = home + "/.local/state/piperuntime"
    } else {
      state = temporary + "-state"
    }
  }
}

extension RuntimeRoots {
  /// A sentence that says where the sockets are, and why; `nil` if the environment selects the
  /// directory of the sockets.
  package var fallbackNote: String? {
    guard let fallback else { return nil }
    let reason =
      switch fallback {
      case .unset: "XDG_RUNTIME_DIR is not set"
      case .foreign(let path): "XDG_RUNTIME_DIR, '\(path)', is not a directory that you own"
      }
    return "\(reason), so sockets are in '\(runtime)'; commands with another XDG_RUNTIME_DIR do "
      + "not find the topology; set XDG_RUNTIME_DIR or PIPERUNTIME_ROOT to the same directory "
      + "for all commands"
  }
}

/// The runtime and state directories of one topology, and the endpoints in them.
package struct RuntimeDirectories: Hashable, Sendable {
  package let topology: String
  package let roots: RuntimeRoots
  /// The directory of the sockets and the lock file. The directory has mode 0700, and exists while
  /// the topology runs.
  package var runtime: String { roots.runtime + "/" + topology }
  /// The directory for data that outlives a run.
  package var state: String { roots.state + "/" + topology }
  package var logs: String { state + "/logs" }
  package var lockFile: String { runtime + "/lock" }
  package var journals: String { state + "/journals" }

  /// Returns the path of a node's journal. SQLite and the node write more files next to it.
  package func journal(of node: String) -> String { Self.journal(of: node, in: journals) }

  /// Returns the path of a node's journal in a directory.
  package static func journal(of node: String, in directory: String) -> String {
    directory + "/" + node + ".sqlite"
  }

  /// The file with the key pair of a control socket that accepts connections from other hosts.
  package var controlKeyFile: String { runtime + "/control.key" }
  /// The file with the endpoint of the control socket for other hosts. An orchestrator that
  /// replaces a killed orchestrator reads this file.
  package var controlEndpointFile: String { runtime + "/control.place" }
  /// The file with the key pair with which clients connect to nodes that accept connections from
  /// other hosts.
  package var clientKeyFile: String { runtime + "/client.key" }

  /// Returns the path of the file with the key pair of a node that accepts connections from other
  /// hosts.
  package func keyFile(of node: String) -> String { runtime + "/" + node + ProcessRecord.keySuffix }

  /// Returns the path of the file with the endpoints of a node that accepts connections from other
  /// hosts. The node's process has reported these endpoints.
  package func endpointsFile(of node: String) -> String {
    runtime + "/" + node + ProcessRecord.endpointsSuffix
  }

  /// - Throws: ``DirectoryError`` if the name is not valid as a file name.
  package init(topology: String, roots: RuntimeRoots = RuntimeRoots()) throws(DirectoryError) {
    guard isSafeName(topology) else { throw .unsafeName(topology) }
    self.topology = topology
    self.roots = roots
  }

  package enum Socket: Hashable, Sendable {
    /// The ROUTER socket on which the orchestrator receives reports and commands.
    case control
    /// The ROUTER socket on which a node receives events.
    case inbox(node: String)
    /// The XPUB socket on which a node publishes its feed.
    case feed(node: String)
  }

  /// The maximum length of the path of a Unix socket on Linux. Unit: bytes.
  package static let pathLimit = 107

  /// Returns `ipc://` and the socket's path.
  /// - Throws: ``DirectoryError`` if the path is too long, or a node's name is not valid as a file
  ///   name.
  package func endpoint(_ socket: Socket) throws(DirectoryError) -> String {
    let path = runtime + "/" + (try fileName(of: socket))
    guard path.utf8.count <= Self.pathLimit else { throw .pathTooLong(path) }
    return "ipc://" + path
  }

  private func fileName(of socket: Socket) throws(DirectoryError) -> String {
    let (node, suffix) =
      switch socket {
      case .control: ("control", "")
      case .inbox(let node): (node, ".in")
      case .feed(let node): (node, ".feed")
      }
    guard isSafeName(node) else { throw .unsafeName(node) }
    return node + suffix
  }
}

/// Directories that only their owner may access.
package enum OwnedDirectory {
  /// Creates the directory with mode 0700. If the directory exists, checks that it belongs to this
  /// user and is not a symbolic link, and removes the access rights of other users.
  package static func make(_ path: String) throws(DirectoryError) {
    do {
      try FileSystem.makeDirectories(FileSystem.parentDirectory(of: path))
    } catch {
      throw .unusable(.runtime, error as? SystemError ?? SystemError("mkdir", on: path, code: EIO))
    }
    if mkdir(path, 0o700) == 0 { return }
    guard errno == EEXIST else {
      throw .unusable(.runtime, SystemError("mkdir", on: path, code: errno))
    }
    var status = stat()
    guard lstat(path, &status) == 0 else {
      throw .system(SystemError("stat", on: path, code: errno))
    }
    guard status.st_mode & S_IFMT == S_IFDIR else { throw .foreignOwner(path: path, owner: nil) }
    guard status.st_uid == geteuid() else { throw .foreignOwner(path: path, owner: status.st_uid) }
    if status.st_mode & 0o077 != 0, chmod(path, 0o700) != 0 {
      throw .system(SystemError("chmod", on: path, code: errno))
    }
  }

  /// Creates a directory for data that outlives a run, and its parents. If the directory exists,
  /// checks that it is writable.
  static func makeWritable(_ path: String) throws(DirectoryError) {
    do {
      try FileSystem.makeDirectories(path, mode: 0o700)
    } catch {
      throw .unusable(.state, error as? SystemError ?? SystemError("mkdir", on: path, code: EIO))
    }
    guard access(path, W_OK | X_OK) == 0 else {
      throw .unusable(.state, SystemError("access", on: path, code: errno))
    }
  }

  /// Returns the owner of a directory; `nil` if there is no directory at this path.
  static func owner(of path: String) -> uid_t? {
    var status = stat()
    guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { return nil }
    return status.st_uid
  }
}

/// The reason why a topology's directories cannot be used.
package enum DirectoryError: Error, Hashable, Sendable {
  /// The name of a topology or a node is not valid as a file name.
  case unsafeName(String)
  /// A socket path is longer than ``RuntimeDirectories/pathLimit`` bytes.
  case pathTooLong(String)
  /// The path is not a directory of this user: it belongs to another user, or is a symbolic link or
  /// a file.
  case foreignOwner(path: String, owner: UInt32?)
  /// Another orchestrator holds the topology's lock. `pid` is the process id of that orchestrator;
  /// `nil` if the lock file is damaged.
  case alreadyRunning(topology: String, pid: Int32?, file: String?)
  /// A process of the topology is alive, but its record does not contain its process id.
  case unknownProcess(record: String)
  /// A directory cannot be created or written to.
  case unusable(Purpose, SystemError)
  case system(SystemError)

  /// The purpose of a directory.
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
      "'\(name)' is not a valid file name; use 1 to 64 characters of A-Z a-z 0-9 _ . -, without a "
        + "leading dot"
    case .pathTooLong(let path):
      "the socket path '\(path)' is \(path.utf8.count) bytes long; the system's limit is "
        + "\(RuntimeDirectories.pathLimit); shorten the topology's or the node's name, or set "
        + "PIPERUNTIME_ROOT to a shorter directory"
    case .foreignOwner(let path, let owner?):
      "'\(path)' belongs to user \(owner); remove this directory, or set XDG_RUNTIME_DIR or "
        + "PIPERUNTIME_ROOT to a directory that you own"
    case .foreignOwner(let path, nil):
      "'\(path)' is not a directory; remove this file, or set PIPERUNTIME_ROOT to another directory"
    case .alreadyRunning(let topology, let pid, let file):
      "topology '\(topology)' is already running"
        + (pid.map { " (pid \($0)\(file.map { ", \($0)" } ?? ""))" } ?? "")
        + "; stop the topology with 'orchestrator down -p \(topology)', or start this topology "
        + "under another name"
    case .unknownProcess(let record):
      "an unidentified process, which was starting when its orchestrator was killed, holds "
        + "'\(record)'; find the process with 'fuser \(record)', end it, and try again"
    case .unusable(let purpose, let error):
      "no directory for \(purpose.contents): '\(error.subject ?? "?")' cannot be "
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

/// The locations of a topology's journals. A journal is in the topology's state directory, unless
/// its node may move to other hosts. Then the journal is in a directory that all these hosts share.
package struct JournalPaths: Hashable, Sendable {
  /// The paths of the journals outside the state directory, by node.
  private let externalPaths: [String: String]
  private let directories: RuntimeDirectories

  /// Reads the locations that the last run recorded. A run records nothing if all its journals are
  /// in the state directory.
  package init(in directories: RuntimeDirectories) {
    self.directories = directories
    let text = FileSystem.contents(of: Self.filePath(in: directories)) ?? []
    externalPaths = (try? JSONValue(parsing: text).decode([String: String].self)) ?? [:]
  }

  /// The path of a node's journal.
  package subscript(node: String) -> String { externalPaths[node] ?? directories.journal(of: node) }

  /// The names of the nodes whose journals are outside the state directory.
  package var nodesWithExternalJournals: [String] { externalPaths.keys.sorted() }

  /// Records the locations of a run's journals, so that other processes find the journals.
  /// - Parameter paths: The paths of the journals, by node.
  package static func write(_ paths: [String: String], in directories: RuntimeDirectories) throws {
    let elsewhere = paths.filter { $0.value != directories.journal(of: $0.key) }
    let file = filePath(in: directories)
    guard !elsewhere.isEmpty else {
      unlink(file)
      return
    }
    try FileSystem.replace(file, with: try JSONValue(encoding: elsewhere).bytes + [0x0A])
  }

  private static func filePath(in directories: RuntimeDirectories) -> String {
    directories.state + "/journals.json"
  }
}
