import FoundationEssentials
import Glibc
import PipeRuntime
import PipeSupervision
import Synchronization

/// Starts single nodes in place of an orchestrator, so that the measured time contains no work of
/// an orchestrator.
final class NodeLauncher {
  private let context = Context()
  private let control: Socket
  private let directory: TemporaryDirectory
  private let endpoint: String

  init(in directory: TemporaryDirectory) throws {
    self.directory = directory
    endpoint = "ipc://" + directory.uniquePath("control")
    control = try Socket(.router, in: context)
    try control.bind(endpoint)
  }

  /// A running node.
  struct Node {
    var process: ChildProcess
    /// The time from the start of the process until the node was ready. Unit: seconds.
    let readyAfter: Double
    /// The processor use until the node was ready, including exec.
    let useUntilReady: ProcessorUse
  }

  /// Starts a node without pipes, and waits until the node has reported that it is ready and
  /// running.
  func start(machine: String, durability: Durability) throws -> Node {
    let name = "node"
    let arguments = NodeArguments(
      topology: "start", node: name, content: .machine(machine, parameters: .object([:])),
      control: endpoint, inbox: "ipc://" + directory.uniquePath("in"),
      feed: "ipc://" + directory.uniquePath("feed"), incarnation: 1,
      journal: durability == .volatile
        ? nil
        : NodeArguments.Journal(
          path: directory.uniquePath("journal"), durability: durability))
    let start = Clock.nanoseconds
    var process = try ChildProcess.spawn(
      ChildCommand(
        path: Programs.nodes, arguments: arguments.arguments,
        environment: ProcessEnvironment.current, output: .inherited))
    do {
      try expect(.hello)
      let peer = Array(WireName.node(name).utf8)
      control.send(
        FrameHeader(.configure, incarnationOrSession: 1),
        body: try JSONRecord.encode(NodeConfiguration()),
        to: peer)
      try expect(.ready)
      let readyAfter = Double(Clock.nanoseconds - start) / 1e9
      let use = ProcessorUse(of: process.pid)
      control.send(FrameHeader(.start, incarnationOrSession: 1), to: peer)
      control.send(FrameHeader(.ping, sequence: 1), to: peer)
      try expect(.status)
      return Node(process: process, readyAfter: readyAfter, useUntilReady: use)
    } catch {
      process.signal(.kill)
      process.wait()
      throw error
    }
  }

  private func expect(_ kind: FrameKind) throws {
    var receivedKind: FrameKind?
    let loop = PollLoop()
    let registration = loop.add(control) { [control] in
      if control.receive({ _, bytes in receivedKind = try? FrameHeader(bytes).kind }) {
        loop.stop()
      }
    }
    let timer = loop.schedule(after: .seconds(10)) { loop.stop() }
    loop.run()
    loop.cancel(timer)
    loop.remove(registration)
    guard receivedKind == kind else {
      throw HarnessError("a node did not say '\(kind)' within 10 s")
    }
  }
}

/// A directory for the sockets, logs and topology files of a section. It is removed when this
/// object is deallocated.
final class TemporaryDirectory: Sendable {
  let path: String
  private let cleanup: Int
  private let count = Mutex(0)

  init() throws {
    let path = try FileSystem.makeTemporaryDirectory("/tmp/pr-bench-")
    self.path = path
    cleanup = Cleanup.add { FileSystem.removeTree(path) }
  }

  deinit {
    Cleanup.remove(cleanup)
    FileSystem.removeTree(path)
  }

  /// Returns a path in the directory that no other call has returned.
  func uniquePath(_ name: String) -> String {
    let number = count.withLock { count in
      count += 1
      return count
    }
    return "\(path)/\(name)\(number)"
  }

  func write(_ text: String, to name: String) throws -> String {
    let file = path + "/" + name
    try Data(text.utf8).write(to: URL(filePath: file))
    return file
  }
}

/// Cleans up after a measurement, even if the measurement is interrupted.
enum Cleanup {
  private struct State {
    var lastID = 0
    var entries: [(id: Int, undo: @Sendable () -> Void)] = []
  }

  private static let state = Mutex(State())

  /// Handles SIGINT and SIGTERM: runs all cleanup actions in reverse order, and ends the process.
  ///
  /// The system sends SIGKILL to children of the main thread when this thread ends.
  static func watchSignals() throws {
    let signals = try SignalDescriptor([.interrupt, .terminate])
    _ = LoopThread { loop in
      loop.add(descriptor: signals.descriptor) {
        guard let signal = signals.next() else { return }
        let entries = state.withLock { state in state.entries }
        for entry in entries.reversed() { entry.undo() }
        exit(128 + signal.number)
      }
    }
  }

  /// Registers a cleanup action, and returns an id with which the action can be removed.
  static func add(_ undo: @escaping @Sendable () -> Void) -> Int {
    state.withLock { state in
      state.lastID += 1
      state.entries.append((state.lastID, undo))
      return state.lastID
    }
  }

  static func remove(_ id: Int) {
    state.withLock { state in state.entries.removeAll { $0.id == id } }
  }
}

/// The measured executables, which are in the directory of this program.
enum Programs {
  /// This program.
  static let own = OwnProcess.executablePath ?? CommandLine.arguments[0]
  static let nodes = FileSystem.parentDirectory(of: own) + "/nodes"
  static let orchestrator = FileSystem.parentDirectory(of: own) + "/orchestrator"
  static let inspector = FileSystem.parentDirectory(of: own) + "/inspector"

  /// Returns the path of an installed program; `nil` if the program is not installed.
  static func find(_ name: String) -> String? {
    let folders = (ProcessEnvironment.current["PATH"] ?? "").split(separator: ":")
    return folders.map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
  }

  /// Checks that all executables exist.
  static func check() throws {
    for path in [nodes, orchestrator, inspector] where access(path, X_OK) != 0 {
      throw HarnessError("'\(path)' is missing; build it with 'make bench'")
    }
  }
}

/// The reason why a measurement is not possible.
struct HarnessError: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
