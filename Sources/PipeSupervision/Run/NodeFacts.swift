import PipeMachines
import PipeSupport
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
  /// The last lines that it wrote before it failed.
  private(set) var lastLines: [String] = []
  /// The id of its process on another host; `nil` before that has said hello.
  var pidElsewhere: Int32?
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
    pidElsewhere = nil
    status = nil
    statusProblem = nil
    isMisreporting = false
    isUnreachable = false
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
