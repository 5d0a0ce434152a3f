import Glibc
import PipeClient
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The facts that the orchestrator knows about a node and that the node's lifecycle does not
/// contain.
struct NodeFacts {
  /// The reason for the node's current phase; `nil` if the phase needs no reason.
  private(set) var reason: String?
  private(set) var status: NodeStatus?
  /// The reason why the node's last status cannot be read; `nil` if the status can be read.
  private(set) var statusError: StatusError?
  private var startInstant: BootClock.Instant?
  private(set) var description: MachineDescription?
  /// The launch parameters of the last process.
  private(set) var launch: ProcessRecord.Launch?
  /// Whether the process has reported that it can open more outgoing pipes while it runs.
  var opensPipes = false
  /// Whether additional pipes were sent to the process.
  private(set) var isExtended = false
  /// The last lines that the node wrote before it failed.
  private(set) var lastLines: [String] = []
  /// The id of the process on another host; `nil` until its hello.
  var remotePid: Int32?
  private var isMisreporting = false
  /// Whether the node waits for its agent or its host.
  private var isAwaitingStart = false
  private var isUnreachable = false

  init(description: MachineDescription?) { self.description = description }

  /// The time of day at which the process started, according to the present setting of the clock.
  /// Unit: nanoseconds since 1970.
  var startedAt: Int64? { startInstant?.timeOfDay(asOf: BootClock.now) }

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

  /// Records that additional outgoing pipes were sent to the process.
  mutating func take(extended launch: ProcessRecord.Launch) {
    self.launch = launch
    isExtended = true
  }

  /// Records the adoption of a process.
  mutating func take(adopted record: ProcessRecord) {
    let now = BootClock.now
    startInstant = BootClock.Instant(
      timeOfDay: record.startedAt,
      timeSinceBoot: now.timeSinceBoot - max(0, now.timeOfDay - record.startedAt))
    launch = record.launch
  }

  /// Records a report.
  /// - Parameter stopFailure: The reason why the node did not stop gracefully; `nil` if the node
  ///   stopped gracefully.
  mutating func take(_ report: NodeReport, stopFailure: String?) {
    if isAwaitingStart, case .spawned = report { reason = nil }
    isAwaitingStart = report == .awaitingAgent || report.isAwaitingHost
    switch report {
    case .running, .adopted, .reachableAgain: reason = nil
    case .stopped, .completed:
      // If the node did not stop gracefully, the reason stays visible.
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
    case .starting, .spawned, .saidHello, .adopting, .ready, .stopping, .unreadableStatus,
      .programNotCopied, .unattached, .moving:
      break
    }
  }

  /// Records a status that the process has sent.
  /// - Returns: The reason why the status cannot be read; `nil` if the status can be read. The
  ///   reason is returned only once for each process, since every later status has the same
  ///   problem.
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
  /// - Returns: `false` if this was known before.
  mutating func recordLostSockets() -> Bool {
    defer { isUnreachable = true }
    return !isUnreachable
  }

  mutating func take(lastLines: [String]) { self.lastLines = lastLines }

  /// Compares the description that a process has sent with the known description.
  /// - Returns: Whether the two descriptions are equal, or there was no description before.
  mutating func agrees(with description: MachineDescription) -> Bool {
    guard let known = self.description else {
      self.description = description
      return true
    }
    return known == description
  }

  /// Records the description of the node's machine according to a new topology file.
  mutating func take(changed description: MachineDescription?, isReplaced: Bool) {
    if isReplaced {
      launch = nil
      self.description = nil
    }
    if let description { self.description = description }
  }
}

/// The highest incarnation of each node of a topology over all runs, stored in a file. Pipes and
/// journals identify a process by its incarnation, so two processes of a node must never have the
/// same incarnation.
package struct Incarnations: Sendable {
  /// The error that the file cannot be parsed.
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

  /// Reads the incarnations of former runs. If the file does not exist, there are no former runs.
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

  /// Returns the incarnations after a change of names. A renamed node continues to count.
  func counts(after changes: NameChanges) -> [String: Int] {
    var next = counts
    for (former, name) in changes.members {
      if let count = counts[former] { next[name] = max(count, next[name] ?? 0) }
    }
    return next
  }

  /// Stores incarnations durably. Call this before you start the processes with these incarnations.
  /// - Parameter starts: For each node that is about to start, the incarnation of the new process.
  package mutating func record(_ starts: [String: Int]) throws {
    let next = counts.merging(starts) { max($0, $1) }
    guard next != counts else { return }
    try FileSystem.replace(path, with: try JSONValue(encoding: next).bytes + [0x0A])
    counts = next
  }
}
