import Glibc
import PipeSupport
import PipeSystem
import PipeWire

/// Where all topologies of a user have their sockets and their state.
package struct RuntimeRoots: Hashable, Sendable {
  /// Holds a directory of sockets per running topology.
  package let runtime: String
  /// Holds a directory of logs and journals per topology.
  package let state: String
  /// Why the runtime directory of the login is not used; `nil` where it is, or another was chosen.
  package let fallback: Fallback?

  /// Why sockets are in `/tmp`.
  package enum Fallback: Hashable, Sendable {
    case unset
    /// `XDG_RUNTIME_DIR` is no directory of this user.
    case foreign(String)
  }

  /// From the environment: `PIPERUNTIME_ROOT` if set, else the XDG directories, else `/tmp` and the
  /// home directory.
  package init(environment: [String: String] = ProcessEnvironment.current, user: uid_t = geteuid())
  {
    func variable(_ name: String) -> String? {
      environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }
    if let root = variable("PIPERUNTIME_ROOT").map(FileSystem.absolute) {
      runtime = root + "/run"
      state = root + "/state"
      self.fallback = nil
      return
    }
    let temporary = "/tmp/piperuntime-\(user)"
    let login = variable("XDG_RUNTIME_DIR")
    // A login by su leaves the variable pointing to somebody else's directory, or to none.
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
  /// Where sockets are, and why there, in a sentence; `nil` where that was chosen.
  package var fallbackNote: String? {
    guard let fallback else { return nil }
    let reason =
      switch fallback {
      case .unset: "XDG_RUNTIME_DIR is not set"
      case .foreign(let path): "XDG_RUNTIME_DIR, '\(path)', is no directory of yours"
      }
    return "\(reason), so sockets are in '\(runtime)'; a command for which it is set looks "
      + "elsewhere. Set it, or PIPERUNTIME_ROOT, alike for all"
  }
}

/// The runtime and state directories of one topology, and the endpoints in them.
package struct RuntimeDirectories: Hashable, Sendable {
  package let topology: String
  package let roots: RuntimeRoots
  /// Sockets and the lock. Exists while the topology runs; mode 0700.
  package var runtime: String { roots.runtime + "/" + topology }
  /// What outlives a run.
  package var state: String { roots.state + "/" + topology }
  package var logs: String { state + "/logs" }
  package var lock: String { runtime + "/lock" }
  package var journals: String { state + "/journals" }

  /// The journal of a node; beside it are the files that SQLite and the node add to it.
  package func journal(of node: String) -> String { Self.journal(of: node, in: journals) }

  /// The journal of a node in a directory.
  package static func journal(of node: String, in directory: String) -> String {
    directory + "/" + node + ".sqlite"
  }

  /// The key pair of the control socket that is bound for other hosts.
  package var controlKey: String { runtime + "/control.key" }
  /// Where that socket is bound, for an orchestrator that comes after one that was killed.
  package var controlPlace: String { runtime + "/control.place" }
  /// The key pair by which clients reach nodes that are bound for other hosts.
  package var clientKey: String { runtime + "/client.key" }

  /// The key pair of a node's process that is bound for other hosts. No node has a dot in its name.
  package func key(of node: String) -> String { runtime + "/" + node + ProcessRecord.keySuffix }

  /// Where the sockets of a node's process are that is bound for other hosts, as that has told.
  package func place(of node: String) -> String {
    runtime + "/" + node + ProcessRecord.placeSuffix
  }

  /// - Throws: ``DirectoryError`` where the name cannot be a file's.
  package init(topology: String, roots: RuntimeRoots = RuntimeRoots()) throws(DirectoryError) {
    guard isSafeName(topology) else { throw .unsafeName(topology) }
    self.topology = topology
    self.roots = roots
  }

  package enum Socket: Hashable, Sendable {
    /// The orchestrator's ROUTER.
    case control
    /// A node's ROUTER for events.
    case inbox(node: String)
    /// A node's XPUB.
    case feed(node: String)
  }

  /// The longest path of a Unix socket on Linux. Unit: bytes.
  package static let pathLimit = 107

  /// `ipc://` and the socket's path.
  /// - Throws: ``DirectoryError`` where the path is too long or a node's name cannot be a file's.
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
