import Glibc
import PipeMachines
import PipeSystem
import PipeTransport
import PipeWire

/// Runs embedded nodes in the process and on the loop of their carrier node. Admits the nodes, and
/// releases their resources when they leave.
///
/// Each embedded node has its own ``NodeShell``, and leaves independently of the others.
final class EmbeddedNodes {
  /// The result of opening a node: a shell that can run, or a shell that only reports why the node
  /// cannot run.
  enum OpenedNode {
    case running(NodeShell)
    case leaving(NodeShell, because: String, code: Int32 = EXIT_FAILURE)

    var shell: NodeShell {
      switch self {
      case .running(let shell), .leaving(let shell, _, _): shell
      }
    }
  }

  private struct EmbeddedNode {
    let ownerID: Int
    let incarnation: UInt64
    let shell: NodeShell
    let recordLock: RecordLock?
    /// The paths of the node's sockets.
    let socketFiles: [String]
    /// The request for a later incarnation of the node. The later incarnation is admitted when this
    /// incarnation has left.
    var successor: EmbeddedNodeRequest?
  }

  private let environment: NodeEnvironment
  private let openNode: (NodeArguments, NodeEnvironment, NodeLog) throws -> OpenedNode
  private var nodesByName: [String: EmbeddedNode] = [:]
  private var admittedCount = 0
  private var carrier: LocalPeer?
  /// Whether nodes are rejected, because the process is about to end.
  private var isClosed = false
  /// Called when all stopped nodes have left.
  private var onEmpty: (() -> Void)?

  /// - Parameter open: A function that opens a node's journal and content, and connects the node.
  init(
    at environment: NodeEnvironment,
    open: @escaping (NodeArguments, NodeEnvironment, NodeLog) throws -> OpenedNode
  ) {
    self.environment = environment
    self.openNode = open
    if Failpoint.mayAct { environment.loop.onCurrentNodeChange = { Failpoint.setCurrentOwner($0) } }
  }

  var hasNodes: Bool { !nodesByName.isEmpty }

  /// Makes ``admit(_:to:)`` reject all further nodes.
  func close() { isClosed = true }

  // MARK: Admitting embedded nodes

  /// Admits a node. If the node cannot be admitted, reports the reason to the orchestrator.
  func admit(_ request: EmbeddedNodeRequest, to shell: NodeShell) {
    let arguments: NodeArguments
    do {
      let description = NodeArguments.description(of: "node")
      arguments = try NodeArguments(
        try description.parse(request.arguments.dropFirst()), of: "node")
    } catch {
      return reject("", 0, because: "the node's arguments are invalid: \(error)", at: shell)
    }
    let name = arguments.node
    if isClosed {
      return reject(
        name, arguments.incarnation, because: "the carrier node is stopping", at: shell)
    }
    if let existing = nodesByName[name] {
      // Ignores a repeated request. An earlier incarnation, which a former orchestrator may have
      // started, must leave before the requested incarnation can start.
      if existing.incarnation >= arguments.incarnation { return }
      nodesByName[name]?.successor = request
      return stop(name)
    }
    do {
      try admit(name, arguments, request, to: shell)
    } catch {
      reject(name, arguments.incarnation, because: "\(error)", at: shell)
    }
  }

  private func admit(
    _ name: String, _ arguments: NodeArguments, _ request: EmbeddedNodeRequest, to shell: NodeShell
  ) throws {
    let lock = try request.record.map {
      try RecordLock($0, incarnation: arguments.incarnation)
    }
    let localPeer = try carrierPeer(of: shell)
    admittedCount += 1
    let ownerID = admittedCount
    try environment.loop.run(asNode: ownerID) {
      let log = NodeLog(ofEmbeddedNode: name)
      Failpoint.arm(
        ownerID: ownerID, prefix: log.prefix, node: name, incarnation: arguments.incarnation)
      var environment = environment
      environment.carrier = localPeer
      environment.keyFileContents = request.key
      let opened = try openNode(arguments, environment, log)
      nodesByName[name] = EmbeddedNode(
        ownerID: ownerID, incarnation: arguments.incarnation, shell: opened.shell, recordLock: lock,
        socketFiles: Self.socketFiles(of: arguments))
      opened.shell.onLeave = { [weak self, weak shell] reason in
        // Deferred, because the current call of the shell must return first.
        self?.environment.loop.schedule(after: .zero) {
          self?.sayGoodbye(of: name, ownerID, because: reason, admittingSuccessorTo: shell)
        }
      }
      switch opened {
      case .running(let embeddedNode): embeddedNode.registerWithLoop()
      case .leaving(let embeddedNode, let reason, let code):
        embeddedNode.leaveAtOnce(because: reason, code: code)
      }
    }
  }

  /// Returns the paths of the node's sockets. A socket that accepts connections from other hosts
  /// has no path.
  private static func socketFiles(of arguments: NodeArguments) -> [String] {
    let prefix = "ipc://"
    return [arguments.inbox, arguments.feed].filter { $0.hasPrefix(prefix) }
      .map { String($0.dropFirst(prefix.count)) }
  }

  /// Returns the `inproc` endpoints at which embedded nodes connect to their carrier node. The
  /// first call binds these endpoints.
  private func carrierPeer(of shell: NodeShell) throws(TransportError) -> LocalPeer {
    if let carrier { return carrier }
    let localPeer = LocalPeer(name: shell.name, context: environment.context)
    try shell.bindLocally(localPeer)
    carrier = localPeer
    return localPeer
  }

  private func reject(
    _ name: String, _ incarnation: UInt64, because reason: String, at shell: NodeShell
  ) {
    let rejection = EmbeddingRejection(node: name, incarnation: incarnation, reason: reason)
    shell.control.send(.rejected, (try? JSONRecord.encode(rejection)) ?? [])
  }

  // MARK: Stopping embedded nodes

  /// Stops an embedded node gracefully.
  func stop(_ name: String) {
    guard let embeddedNode = nodesByName[name] else { return }
    environment.loop.run(asNode: embeddedNode.ownerID) { embeddedNode.shell.stop() }
  }

  /// Stops all embedded nodes gracefully, and then calls `action`.
  func stopAll(then action: @escaping () -> Void) {
    onEmpty = action
    for name in nodesByName.keys.sorted() {
      nodesByName[name]?.successor = nil
      stop(name)
    }
  }

  /// Ends all embedded nodes immediately, because the process ends.
  func endAll(because reason: String) {
    onEmpty = nil
    for (name, embeddedNode) in nodesByName {
      environment.loop.run(asNode: embeddedNode.ownerID) {
        embeddedNode.shell.end(because: reason)
      }
      sayGoodbye(of: name, embeddedNode.ownerID, because: reason, admittingSuccessorTo: nil)
    }
  }

  /// Releases the resources of an embedded node. Only then reports to the orchestrator that the
  /// node has left.
  private func sayGoodbye(
    of name: String, _ ownerID: Int, because reason: String,
    admittingSuccessorTo carrier: NodeShell?
  ) {
    guard let embeddedNode = nodesByName[name], embeddedNode.ownerID == ownerID else { return }
    nodesByName[name] = nil
    for file in embeddedNode.socketFiles { unlink(file) }
    embeddedNode.recordLock?.release()
    embeddedNode.shell.control.sayGoodbye(because: reason, code: embeddedNode.shell.exitCode)
    embeddedNode.shell.control.close()
    if let successor = embeddedNode.successor, let carrier { admit(successor, to: carrier) }
    guard nodesByName.isEmpty, let action = onEmpty else { return }
    onEmpty = nil
    action()
  }
}

/// The lock on an embedded node's process record. The lock shows that the node runs in this
/// process. A node with its own process inherits this lock from its orchestrator.
struct RecordLock {
  private let descriptor: Int32

  /// Acquires the lock, and writes the status of this process into the record.
  /// - Throws: ``NodeSetupError`` if the record belongs to another incarnation; ``SystemError`` if
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

  /// Releases the lock, because the node no longer runs in this process.
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
