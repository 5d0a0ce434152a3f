import Glibc
import PipeMachines
import PipeWire

/// The events of pipes and the synchronized events in the step logs of one node.
///
/// A killed process may have logged steps that the node's journal does not have. A scan ignores
/// these steps.
final class NodeScan {
  struct EventID: Hashable {
    let stream: UInt64
    let number: UInt64
  }

  /// A line of a log.
  struct Place {
    /// The index of the log among the node's logs.
    let log: Int
    let line: Int
    let version: UInt64
  }

  /// An event of a pipe that the node has sent or consumed.
  struct PipeEvent {
    let id: EventID
    /// A hash of the event's JSON. The hash does not depend on the order in which objects list
    /// their members.
    let hash: UInt64
    let place: Place
    /// The position of the event's JSON in the log.
    let text: Range<Int>
  }

  /// The node's step for a synchronized event.
  struct TransactionStep {
    let id: TransactionID
    let place: Place
    /// The position of the event's JSON in the log.
    let text: Range<Int>
  }

  /// The events of one pipe.
  struct PipeEvents {
    var sent: [PipeEvent] = []
    /// The events that the node has consumed, with or without a step.
    var consumed: [PipeEvent] = []
    /// The events that the node may have consumed: postponed events, and the consumed events of log
    /// lines that the journal may lack.
    var possiblyConsumed: Set<EventID> = []
  }

  let node: String
  let logs: [RecordedRun.Log]
  private(set) var steps: [TransactionStep] = []
  /// For each log: the line number of the last step that belongs to the run; 1 if there is no such
  /// step.
  private(set) var lastLines: [Int] = []
  /// The indices of the logs whose last line is incomplete, each with the number of this line.
  private(set) var tornLines: [(log: Int, line: Int)] = []
  /// Whether the node's last process has ended gracefully.
  private(set) var hasEnded = false
  private(set) var problems: [(code: ConformanceReport.Violation.Code, Place, String)] = []
  private var pipes: [(name: [UInt8], events: PipeEvents)] = []
  private let isDurable: Bool
  /// The events of the lines that follow the last scanned step, with one array for each line.
  private var pendingLines: [[PendingEvent]] = []

  private struct PendingEvent {
    enum Role { case sent, consumed, postponed }
    let pipe: Int
    let role: Role
    let event: PipeEvent
  }

  init(_ node: String, _ logs: [RecordedRun.Log], isDurable: Bool) throws(StepLogError) {
    self.node = node
    self.logs = logs
    self.isDurable = isDurable
    for index in logs.indices { try scan(index) }
  }

  /// Returns the events of a pipe.
  func events(of pipe: String) -> PipeEvents {
    let name = Array(pipe.utf8)
    return pipes.first { $0.name == name }?.events ?? PipeEvents()
  }

  /// Returns the JSON of an event at a position in a log; `null` if the log cannot be read.
  func text(_ range: Range<Int>, of log: Int) -> JSONValue {
    let descriptor = open(logs[log].path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return .null }
    defer { close(descriptor) }
    var count = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: range.count) { buffer, initialized in
      count = pread(descriptor, buffer.baseAddress, range.count, off_t(range.lowerBound))
      initialized = max(count, 0)
    }
    return (try? JSONValue(parsing: bytes)) ?? .null
  }

  // MARK: Scanning the lines of a log

  private func scan(_ index: Int) throws(StepLogError) {
    let reader = try StepLogReader(logs[index].path)
    let first = logs[index].header
    let next = isDurable && index + 1 < logs.count ? logs[index + 1].header : nil
    var last = (line: 1, step: UInt64(0), version: first.version, hash: UInt64?.none)
    last.hash = UInt64(first.hash, radix: 16)
    var isUndone = false
    hasEnded = false
    while let line = try reader.next() {
      if line.kind == .ended {
        hasEnded = true
        continue
      }
      // The next process began at a lower version than this step, because the journal lacks the
      // step. This step and the following lines do not belong to the run.
      if let next, line.kind == .step, line.version > next.version { isUndone = true }
      if isUndone { continue }
      let place = Place(log: index, line: line.number, version: line.version)
      guard line.kind == .step else {
        pendingLines.append(pendingEvents(of: line, at: place, reader))
        continue
      }
      flushPendingLines(areCertain: true)
      checkOrder(of: line, after: (last.step, last.version), at: place)
      add(line, at: place, reader)
      last = (line.number, line.step, line.version, line.hash)
    }
    if reader.isTorn { tornLines.append((index, reader.lineNumber + 1)) }
    flushPendingLines(areCertain: next == nil)
    lastLines.append(last.line)
    if let next { checkBeginning(next, of: index + 1, after: (last.version, last.hash)) }
  }

  private func checkOrder(
    of line: StepLogLine, after last: (step: UInt64, version: UInt64), at place: Place
  ) {
    guard line.step != last.step + 1 || line.version <= last.version else { return }
    problems.append(
      (
        .missingSteps, place,
        "this is step \(line.step) of the process, but the previous step in the log is step "
          + "\(last.step)"
      ))
  }

  private func checkBeginning(
    _ next: StepLogHeader, of index: Int, after last: (version: UInt64, hash: UInt64?)
  ) {
    let place = Place(log: index, line: 1, version: next.version)
    let former = logs[index - 1]
    if last.version < next.version {
      problems.append(
        (
          .missingSteps, place,
          "the process begins in version \(next.version), but the log of the previous process, "
            + "'\(former.path)', ends with version \(last.version)"
        ))
    } else if former.header.schema == next.schema, former.header.hashing == next.hashing,
      let hash = last.hash, hash != UInt64(next.hash, radix: 16)
    {
      problems.append(
        (
          .otherState, place,
          "the process begins in state \(next.begins.text), but the previous process, "
            + "'\(former.path)', has ended in another state"
        ))
    }
  }

  /// Adds the events of a step.
  private func add(_ line: StepLogLine, at place: Place, _ reader: StepLogReader) {
    if let transaction = line.transaction {
      let event = line.event ?? 0..<0
      steps.append(
        TransactionStep(
          id: transaction, place: place,
          text: (line.offset + event.lowerBound)..<(line.offset + event.upperBound)))
    }
    if let source = line.source {
      let index = pipe(reader[source.pipe])
      pipes[index].events.consumed.append(
        pipeEvent(source, line.event ?? 0..<0, line, at: place, reader))
    }
    for sent in line.sent {
      let index = pipe(reader[sent.pipe])
      pipes[index].events.sent.append(pipeEvent(sent, sent.event, line, at: place, reader))
    }
  }

  private func pendingEvents(
    of line: StepLogLine, at place: Place, _ reader: StepLogReader
  ) -> [PendingEvent] {
    var events = line.sent.map {
      PendingEvent(
        pipe: pipe(reader[$0.pipe]), role: .sent,
        event: pipeEvent($0, $0.event, line, at: place, reader))
    }
    if let source = line.source {
      events.append(
        PendingEvent(
          pipe: pipe(reader[source.pipe]), role: line.isPostponed ? .postponed : .consumed,
          event: pipeEvent(source, line.event ?? 0..<0, line, at: place, reader)))
    }
    return events
  }

  private func flushPendingLines(areCertain: Bool) {
    guard !pendingLines.isEmpty else { return }
    for pending in pendingLines.joined() {
      switch pending.role {
      // Counts the event as sent, even if this is uncertain: the receiver may have consumed the
      // event.
      case .sent: pipes[pending.pipe].events.sent.append(pending.event)
      case .consumed where areCertain: pipes[pending.pipe].events.consumed.append(pending.event)
      case .consumed, .postponed:
        pipes[pending.pipe].events.possiblyConsumed.insert(pending.event.id)
      }
    }
    pendingLines.removeAll(keepingCapacity: true)
  }

  private func pipeEvent(
    _ event: StepLogLine.PipedEvent, _ text: Range<Int>, _ line: StepLogLine, at place: Place,
    _ reader: StepLogReader
  ) -> PipeEvent {
    PipeEvent(
      id: EventID(stream: event.stream, number: event.number),
      hash: StateHash.unorderedHash(of: reader[text]), place: place,
      text: (line.offset + text.lowerBound)..<(line.offset + text.upperBound))
  }

  /// Returns the index of the pipe with this name. If the pipe is unknown, adds the pipe.
  private func pipe(_ name: UnsafeRawBufferPointer) -> Int {
    for index in pipes.indices {
      let isSame = pipes[index].name.withUnsafeBytes { known in
        known.count == name.count
          && (name.isEmpty || memcmp(known.baseAddress!, name.baseAddress!, name.count) == 0)
      }
      if isSame { return index }
    }
    pipes.append((Array(name), PipeEvents()))
    return pipes.count - 1
  }
}
