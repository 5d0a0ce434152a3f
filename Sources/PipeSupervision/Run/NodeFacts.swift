import Glibc
import PipeClient
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// What the orchestrator knows of a node beside its lifecycle.
struct NodeFacts {
  /// Why it is in its phase, where that is to be told.
  private(set) var reason: String?
  private(set) var status: NodeStatus?
  /// Why there is no status.
  private(set) var statusProblem: StatusProblem?
  private var start: BootClock.Instant?
  private(set) var description: MachineDescription?
  /// What its last process was started as.
  private(set) var launch: ProcessRecord.Launch?
  /// Whether its process takes more pipes that lead from it while it runs, as it says.
  var opensPipes = false
  /// Whether it was told of such.
  private(set) var isExtended = false
  /// The last lines that it wrote before it failed.
  private(set) var lastLines: [String] = []
  /// The id of its process on another host; `nil` before that has said hello.
  var remotePid: Int32?
  private var isMisreporting = false
  /// Whether its start is waited for.
  private var isAwaitingStart = false
  private var isUnreachable = false

  init(description: MachineDescription?) { self.description = description }

  /// When its process was started, by the present setting of the clock. Unit: nanoseconds since 1970.
  var startedAt: Int64? { start?.time(asOf: BootClock.now) }

  /// A process of it begins.
  mutating func take(started record: ProcessRecord) {
    take(adopted: record)
    remotePid = nil
    isExtended = false
    opensPipes = false
    status = nil
    statusProblem = nil
    isMisreporting = false
    isUnreachable = false
  }

  /// Its process is told of more pipes that lead from it.
  mutating func take(extended launch: ProcessRecord.Launch) {
    self.launch = launch
    isExtended = true
  }

  /// A process of it is taken over.
  mutating func take(adopted record: ProcessRecord) {
    let now = BootClock.now
    start = BootClock.Instant(
      time: record.startedAt, clock: now.clock - max(0, now.time - record.startedAt))
    launch = record.launch
  }

  /// - Parameter stopProblem: What was wrong with its last end.
  mutating func take(_ report: NodeReport, stopProblem: String?) {
    if isAwaitingStart, case .spawned = report { reason = nil }
    isAwaitingStart = report == .awaitingAgent || report.isAwaitingHost
    switch report {
    case .running, .adopted, .found: reason = nil
    case .stopped, .completed:
      // What was wrong with its end is still to be seen.
      reason = stopProblem.map { "\(NodeReport.endedBadly(reason: $0))" }
      status?.state = nil
    case .failed(let reason):
      self.reason = reason
      status?.state = nil
    case .killing, .restarting, .waitingForSpace, .exited, .unkillable, .lost, .outOfReach:
      reason = report.description
      status?.state = nil
    case .replacing, .waiting, .endedBadly, .awaitingHost, .awaitingAgent:
      reason = report.description
    case .starting, .spawned, .saidHello, .adopting, .ready, .stopping, .misreporting, .unattached,
      .moving:
      break
    }
  }

  /// - Returns: Why it cannot be read, the first time of a process: the next heartbeat brings the same.
  mutating func take(status body: [UInt8]) -> StatusProblem? {
    do {
      status = try NodeStatus(reading: body)
      statusProblem = nil
    } catch {
      status = nil
      statusProblem = error
      guard !isMisreporting else { return nil }
      isMisreporting = true
      return error
    }
    return nil
  }

  /// - Returns: Whether this is the first time that a process of it has no sockets any more.
  mutating func losesSockets() -> Bool {
    defer { isUnreachable = true }
    return !isUnreachable
  }

  mutating func take(lastLines: [String]) { self.lastLines = lastLines }

  /// - Returns: Whether what a process says of its machine is what is known of it, or the first word on it.
  mutating func agrees(with description: MachineDescription) -> Bool {
    guard let known = self.description else {
      self.description = description
      return true
    }
    return known == description
  }

  /// A new file describes it.
  mutating func take(changed description: MachineDescription?, isReplaced: Bool) {
    if isReplaced {
      launch = nil
      self.description = nil
    }
    if let description { self.description = description }
  }
}

/// How often each node of a topology was started, in all its runs: a number is never given to two
/// processes of a node, since pipes and journals tell them apart by it.
package struct Incarnations: Sendable {
  /// The file cannot be read as what it should be.
  package struct Damaged: Error, Hashable, CustomStringConvertible {
    package let path: String

    package var description: String {
      "'\(path)', which counts the starts of the nodes, is damaged: put in the highest start of "
        + "each node that its log tells of, or remove it with all else of this topology beside it"
    }
  }

  package let path: String
  package private(set) var counts: [String: Int] = [:]

  /// Reads what former runs left; nothing, where there was none.
  package init(in directories: RuntimeDirectories) throws {
    path = directories.state + "/incarnations.json"
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      if errno == ENOENT { return }
      throw SystemError("open", on: path, code: errno)
    }
    defer { close(descriptor) }
    let bytes = try FileSystem.read(descriptor)
    guard let document = try? JSONValue(parsing: bytes),
      let counts = try? document.decode([String: Int].self)
    else { throw Damaged(path: path) }
    self.counts = counts
  }

  /// Writes the numbers down for good; to be done before the processes that bear them are started.
  package mutating func record(_ starts: [String: Int]) throws {
    let next = counts.merging(starts) { max($0, $1) }
    guard next != counts else { return }
    try FileSystem.replace(path, with: try JSONValue(encoding: next).bytes + [0x0A])
    counts = next
  }
}
