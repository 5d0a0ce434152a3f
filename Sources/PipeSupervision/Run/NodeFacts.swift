import Glibc
import PipeClient
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The facts that the orchestrator knows about a node in addition to its lifecycle.
struct NodeFacts {
  /// Why the node is in its phase, if the phase needs a reason.
  private(set) var reason: String?
  private(set) var status: NodeStatus?
  /// Why there is no status.
  private(set) var statusError: StatusError?
  private var start: BootClock.Instant?
  private(set) var description: MachineDescription?
  /// The launch parameters of the last process.
  private(set) var launch: ProcessRecord.Launch?
  /// Whether the process reports that it can open more outgoing pipes while it runs.
  var opensPipes = false
  /// Whether the process was sent additional pipes.
  private(set) var isExtended = false
  /// The last lines that the node wrote before it failed.
  private(set) var lastLines: [String] = []
  /// The id of the process on another host; `nil` before its hello.
  var remotePid: Int32?
  private var isMisreporting = false
  /// Whether the node waits for its agent or its host.
  private var isAwaitingStart = false
  private var isUnreachable = false

  init(description: MachineDescription?) { self.description = description }

  /// When the process started, by the current setting of the clock. Unit: nanoseconds since 1970.
  var startedAt: Int64? { start?.time(asOf: BootClock.now) }

  /// Records the start of a process.
  mutating func take(started record: ProcessRecord) {
    take(adopted: record)
    remotePid = nil
    isExtended = false
    opensPipes = false
    status = nil
    statusError = nil
    isMisreporting = false
    isUnreachable = false
  }

  /// Records that the process was sent additional outgoing pipes.
  mutating func take(extended launch: ProcessRecord.Launch) {
    self.launch = launch
    isExtended = true
  }

  /// Records the adoption of a process.
  mutating func take(adopted record: ProcessRecord) {
    let now = BootClock.now
    start = BootClock.Instant(
      time: record.startedAt, clock: now.clock - max(0, now.time - record.startedAt))
    launch = record.launch
  }

  /// Records a report.
  /// - Parameter stopFailure: The problem with the last end of the node.
  mutating func take(_ report: NodeReport, stopFailure: String?) {
    if isAwaitingStart, case .spawned = report { reason = nil }
    isAwaitingStart = report == .awaitingAgent || report.isAwaitingHost
    switch report {
    case .running, .adopted, .found: reason = nil
    case .stopped, .completed:
      // The problem with the end of the node stays visible.
      reason = stopFailure.map { "\(NodeReport.ungracefulStop(reason: $0))" }
      status?.state = nil
    case .failed(let reason):
      self.reason = reason
      status?.state = nil
    case .killing, .restarting, .waitingForSpace, .exited, .unkillable, .lost, .outOfReach:
      reason = report.description
      status?.state = nil
    case .replacing, .waiting, .ungracefulStop, .awaitingHost, .awaitingAgent:
      reason = report.description
    case .starting, .spawned, .saidHello, .adopting, .ready, .stopping, .misreporting, .unattached,
      .moving:
      break
    }
  }

  /// Records a status.
  /// - Returns: Why the status cannot be read, once per process: the next heartbeat has the same problem.
  mutating func take(status body: [UInt8]) -> StatusError? {
    do {
      status = try NodeStatus(reading: body)
      statusError = nil
    } catch {
      status = nil
      statusError = error
      guard !isMisreporting else { return nil }
      isMisreporting = true
      return error
    }
    return nil
  }

  /// Records that the sockets of the process are missing.
  /// - Returns: Whether they were found missing for the first time.
  mutating func recordLostSockets() -> Bool {
    defer { isUnreachable = true }
    return !isUnreachable
  }

  mutating func take(lastLines: [String]) { self.lastLines = lastLines }

  /// - Returns: Whether the description from a process equals the known one, or is the first one.
  mutating func agrees(with description: MachineDescription) -> Bool {
    guard let known = self.description else {
      self.description = description
      return true
    }
    return known == description
  }

  /// Applies the description of a new file.
  mutating func take(changed description: MachineDescription?, isReplaced: Bool) {
    if isReplaced {
      launch = nil
      self.description = nil
    }
    if let description { self.description = description }
  }
}

/// The number of starts of each node of a topology in all its runs. No two processes of a node get the
/// same number, because pipes and journals identify processes by it.
package struct Incarnations: Sendable {
  /// An error: the file cannot be parsed.
  package struct DamagedFileError: Error, Hashable, CustomStringConvertible {
    package let path: String

    package var description: String {
      "'\(path)', which contains the last incarnation of each node, is damaged; write the highest "
        + "incarnation in the log of each node into the file, or remove all files of this topology "
        + "in the same directory"
    }
  }

  package let path: String
  package private(set) var counts: [String: Int] = [:]

  /// Reads the counts of former runs. There are none if the file does not exist.
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
    else { throw DamagedFileError(path: path) }
    self.counts = counts
  }

  /// Records the numbers durably. Must be called before the processes with these numbers are started.
  package mutating func record(_ starts: [String: Int]) throws {
    let next = counts.merging(starts) { max($0, $1) }
    guard next != counts else { return }
    try FileSystem.replace(path, with: try JSONValue(encoding: next).bytes + [0x0A])
    counts = next
  }
}
