import Glibc
import PipeMachines
import PipeSystem
import PipeTransport
import PipeWire

/// The embedded nodes that run in a carrier node's process, on its loop: admits them, and closes
/// them when they leave.
///
/// Each embedded node has its own shell, with everything that a node has, and leaves independently
/// of the others.
final class EmbeddedNodes {
  /// An opened node: a shell that runs, or a shell that only reports why the node cannot run.
  enum Opened {
    case running(NodeShell)
    case leaving(NodeShell, because: String, code: Int32 = EXIT_FAILURE)

    var shell: NodeShell {
      switch self {
      case .running(let shell), .leaving(let shell, _, _): shell
      }
    }
  }

  private struct EmbeddedNode {
    let number: Int
    let incarnation: UInt64
    let shell: NodeShell
    let lock: RecordLock?
    /// The socket files of the node.
    let files: [String]
    /// The node that replaces this node when it has left.
    var successor: EmbeddedNodeRequest?
  }

  private let place: NodeSurroundings
  private let open: (NodeArguments, NodeSurroundings, NodeLog) throws -> Opened
  private var lodgers: [String: EmbeddedNode] = [:]
  private var count = 0
  private var host: LocalPeer?
  /// Whether no more nodes are admitted, since the process is about to end.
  private var isClosed = false
  /// Called when all stopped nodes have left.
  private var onEmpty: (() -> Void)?

  /// - Parameter open: Opens a node's journal and content, and connects it.
  init(
    at place: NodeSurroundings,
    open: @escaping (NodeArguments, NodeSurroundings, NodeLog) throws -> Opened
  ) {
    self.place = place
    self.open = open
    if Failpoint.mayAct { place.loop.onResidentChange = { Failpoint.enter($0) } }
  }

  var areThere: Bool { !lodgers.isEmpty }

  /// Stops admitting nodes.
  func close() { isClosed = true }

  // MARK: Coming

  /// Admits a node, or reports to its orchestrator why not.
  func admit(_ lodging: EmbeddedNodeRequest, to shell: NodeShell) {
    let arguments: NodeArguments
    do {
      let description = NodeArguments.description(of: "node")
      arguments = try NodeArguments(
        try description.parse(lodging.arguments.dropFirst()), of: "node")
    } catch {
      return turnAway("", 0, because: "the node's arguments are invalid: \(error)", at: shell)
    }
    let name = arguments.node
    if isClosed {
      return turnAway(
        name, arguments.incarnation, because: "the carrier node is stopping", at: shell)
    }
    if let present = lodgers[name] {
      // A repeated request; or the node of a former orchestrator is still present.
      if present.incarnation >= arguments.incarnation { return }
      lodgers[name]?.successor = lodging
      return stop(name)
    }
    do {
      try admit(name, arguments, lodging, to: shell)
    } catch {
      turnAway(name, arguments.incarnation, because: "\(error)", at: shell)
    }
  }

  private func admit(
    _ name: String, _ arguments: NodeArguments, _ lodging: EmbeddedNodeRequest, to shell: NodeShell
  ) throws {
    let lock = try lodging.record.map {
      try RecordLock($0, incarnation: arguments.incarnation)
    }
    let own = try neighbour(of: shell)
    count += 1
    let number = count
    try place.loop.runAsResident(number) {
      let log = NodeLog(ofEmbeddedNode: name)
      Failpoint.arm(
        ownerID: number, prefix: log.prefix, node: name, incarnation: arguments.incarnation)
      var place = place
      place.host = own
      place.key = lodging.key
      let opened = try open(arguments, place, log)
      lodgers[name] = EmbeddedNode(
        number: number, incarnation: arguments.incarnation, shell: opened.shell, lock: lock,
        files: Self.files(of: arguments))
      opened.shell.onLeave = { [weak self, weak shell] reason in
        // Deferred, since the shell is still at work.
        self?.place.loop.schedule(after: .zero) {
          self?.sayGoodbye(of: name, number, because: reason, successorsGoTo: shell)
        }
      }
      switch opened {
      case .running(let lodger): lodger.begin()
      case .leaving(let lodger, let reason, let code):
        lodger.leaveAtOnce(because: reason, code: code)
      }
    }
  }

  /// Returns the socket files of the node. Sockets that are bound for other hosts have no files.
  private static func files(of arguments: NodeArguments) -> [String] {
    let prefix = "ipc://"
    return [arguments.inbox, arguments.feed].filter { $0.hasPrefix(prefix) }
      .map { String($0.dropFirst(prefix.count)) }
  }

  /// Returns the endpoints of the carrier node for its embedded nodes.
  private func neighbour(of shell: NodeShell) throws(TransportError) -> LocalPeer {
    if let host { return host }
    let own = LocalPeer(name: shell.name, context: place.context)
    try shell.bindForNeighbours(own)
    host = own
    return own
  }

  private func turnAway(
    _ name: String, _ incarnation: UInt64, because reason: String, at shell: NodeShell
  ) {
    let refusal = EmbeddingRejection(node: name, incarnation: incarnation, reason: reason)
    shell.control.say(.rejected, (try? JSONRecord.encode(refusal)) ?? [])
  }

  // MARK: Leaving

  /// Stops an embedded node gracefully.
  func stop(_ name: String) {
    guard let lodger = lodgers[name] else { return }
    place.loop.runAsResident(lodger.number) { lodger.shell.stop() }
  }

  /// Stops all embedded nodes gracefully, and then calls `action`.
  func stopAll(then action: @escaping () -> Void) {
    onEmpty = action
    for name in lodgers.keys.sorted() {
      lodgers[name]?.successor = nil
      stop(name)
    }
  }

  /// Ends all embedded nodes at once, with the process.
  func endAll(because reason: String) {
    onEmpty = nil
    for (name, lodger) in lodgers {
      place.loop.runAsResident(lodger.number) { lodger.shell.end(because: reason) }
      sayGoodbye(of: name, lodger.number, because: reason, successorsGoTo: nil)
    }
  }

  /// Releases the resources of an embedded node, and only then reports that it has left.
  private func sayGoodbye(
    of name: String, _ number: Int, because reason: String, successorsGoTo host: NodeShell?
  ) {
    guard let lodger = lodgers[name], lodger.number == number else { return }
    lodgers[name] = nil
    for file in lodger.files { unlink(file) }
    lodger.lock?.release()
    lodger.shell.control.sayGoodbye(because: reason, code: lodger.shell.exitCode)
    lodger.shell.control.close()
    if let successor = lodger.successor, let host { admit(successor, to: host) }
    guard lodgers.isEmpty, let action = onEmpty else { return }
    onEmpty = nil
    action()
  }
}

/// The lock of an embedded node's process record, which shows that the node lives in this process.
/// A node with its own process inherits the lock of its record from its orchestrator.
struct RecordLock {
  private let descriptor: Int32

  /// Takes the lock, and writes the status of this process into the record.
  /// - Throws: ``NodeSetupError`` if the record belongs to another start; ``SystemError`` if
  ///   another process holds the lock.
  init(_ path: String, incarnation: UInt64) throws {
    let descriptor = open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    self.descriptor = descriptor
    do {
      guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
        throw SystemError("flock", on: path, code: errno)
      }
      let written = try FileSystem.read(descriptor, limit: 4 << 20)
      let record = try? JSONValue(parsing: written.prefix { $0 != 0x0A })
        .decode(ProcessRecord.self)
      guard record?.incarnation == incarnation else {
        throw NodeSetupError("'\(path)' is the record of another incarnation")
      }
      try FileSystem.write(Self.ownStatus(), to: descriptor, path: path)
    } catch {
      close(descriptor)
      throw error
    }
  }

  /// Releases the lock: the node of the record no longer lives in this process.
  func release() { close(descriptor) }

  /// Returns the status line of this process, with its line feed. Source: proc(5).
  private static func ownStatus() throws -> [UInt8] {
    let path = "/proc/self/stat"
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    return try FileSystem.read(descriptor, limit: 4096)
  }
}
