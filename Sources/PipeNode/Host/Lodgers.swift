import Glibc
import PipeMachines
import PipeSystem
import PipeTransport
import PipeWire

/// The other nodes that live in a node's process, on its loop: lets them in, and sees them out.
///
/// Each has a shell of its own, with all that a node has, and leaves without the others.
final class Lodgers {
  /// What is opened of a node: a shell that runs, or that only tells why it does not.
  enum Opened {
    case running(NodeShell)
    case leaving(NodeShell, because: String, code: Int32 = EXIT_FAILURE)

    var shell: NodeShell {
      switch self {
      case .running(let shell), .leaving(let shell, _, _): shell
      }
    }
  }

  private struct Lodger {
    let number: Int
    let incarnation: UInt64
    let shell: NodeShell
    let lock: RecordLock?
    /// The files of its sockets.
    let files: [String]
    /// Who is to come in its place when it has left.
    var successor: NodeLodging?
  }

  private let place: NodePlace
  private let open: (NodeArguments, NodePlace, NodeLog) throws -> Opened
  private var lodgers: [String: Lodger] = [:]
  private var count = 0
  private var host: NeighbouringNode?
  /// Whether nobody is let in any more, since the process is about to end.
  private var isClosed = false
  /// Called when all have left that were told to stop.
  private var onEmpty: (() -> Void)?

  /// - Parameter open: Opens a node's journal and content, and connects it.
  init(
    at place: NodePlace, open: @escaping (NodeArguments, NodePlace, NodeLog) throws -> Opened
  ) {
    self.place = place
    self.open = open
    if Failpoint.mayAct { place.loop.onResident = { Failpoint.enter($0) } }
  }

  var areThere: Bool { !lodgers.isEmpty }

  /// Lets nobody in any more.
  func close() { isClosed = true }

  // MARK: Coming

  /// Lets a node in, or tells its orchestrator why not.
  func admit(_ lodging: NodeLodging, to shell: NodeShell) {
    let arguments: NodeArguments
    do {
      let description = NodeArguments.description(of: "node")
      arguments = try NodeArguments(
        try description.parse(lodging.arguments.dropFirst()), of: "node")
    } catch {
      return turnAway("", 0, because: "its arguments cannot be read: \(error)", at: shell)
    }
    let name = arguments.node
    if isClosed {
      return turnAway(name, arguments.incarnation, because: "it is stopping", at: shell)
    }
    if let present = lodgers[name] {
      // Said again; or the one of a former orchestrator is still there.
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
    _ name: String, _ arguments: NodeArguments, _ lodging: NodeLodging, to shell: NodeShell
  ) throws {
    let lock = try lodging.record.map {
      try RecordLock($0, incarnation: arguments.incarnation)
    }
    let own = try neighbour(of: shell)
    count += 1
    let number = count
    try place.loop.asResident(number) {
      let log = NodeLog(ofLodger: name)
      Failpoint.arm(
        resident: number, prefix: log.prefix, node: name, incarnation: arguments.incarnation)
      var place = place
      place.host = own
      place.key = lodging.key
      let opened = try open(arguments, place, log)
      lodgers[name] = Lodger(
        number: number, incarnation: arguments.incarnation, shell: opened.shell, lock: lock,
        files: Self.files(of: arguments))
      opened.shell.onLeave = { [weak self, weak shell] reason in
        // Not while it is still at work.
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

  /// The files of its sockets; those that are bound for other hosts have none.
  private static func files(of arguments: NodeArguments) -> [String] {
    let prefix = "ipc://"
    return [arguments.inbox, arguments.feed].filter { $0.hasPrefix(prefix) }
      .map { String($0.dropFirst(prefix.count)) }
  }

  /// The node itself, as its lodgers reach it.
  private func neighbour(of shell: NodeShell) throws(TransportError) -> NeighbouringNode {
    if let host { return host }
    let own = NeighbouringNode(name: shell.name, context: place.context)
    try shell.bindForNeighbours(own)
    host = own
    return own
  }

  private func turnAway(
    _ name: String, _ incarnation: UInt64, because reason: String, at shell: NodeShell
  ) {
    let refusal = NodeTurnedAway(node: name, incarnation: incarnation, reason: reason)
    shell.control.say(.turnedAway, (try? JSONRecord.encode(refusal)) ?? [])
  }

  // MARK: Leaving

  /// Stops one in order.
  func stop(_ name: String) {
    guard let lodger = lodgers[name] else { return }
    place.loop.asResident(lodger.number) { lodger.shell.stop() }
  }

  /// Stops all in order, and then calls back.
  func stopAll(then action: @escaping () -> Void) {
    onEmpty = action
    for name in lodgers.keys.sorted() {
      lodgers[name]?.successor = nil
      stop(name)
    }
  }

  /// Ends all at once, with the process.
  func endAll(because reason: String) {
    onEmpty = nil
    for (name, lodger) in lodgers {
      place.loop.asResident(lodger.number) { lodger.shell.end(because: reason) }
      sayGoodbye(of: name, lodger.number, because: reason, successorsGoTo: nil)
    }
  }

  /// Gives away what a lodger had, and only then says that it has left.
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

/// The lock of a lodger's record, by which its process is known to live in this one: as the lock of a
/// process's own record, which that inherits from its orchestrator.
struct RecordLock {
  private let descriptor: Int32

  /// Takes the lock, and writes down whose it is.
  /// - Throws: ``NodeProblem`` where the record is another start's, or somebody has the lock.
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
        throw NodeProblem("'\(path)' is the record of another start")
      }
      try FileSystem.write(Self.ownStatus(), to: descriptor, path: path)
    } catch {
      close(descriptor)
      throw error
    }
  }

  /// Gives it away: nobody lives here of whom the record tells.
  func release() { close(descriptor) }

  /// The line of this process, with its end. Source: proc(5).
  private static func ownStatus() throws -> [UInt8] {
    let path = "/proc/self/stat"
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    return try FileSystem.read(descriptor, limit: 4096)
  }
}
