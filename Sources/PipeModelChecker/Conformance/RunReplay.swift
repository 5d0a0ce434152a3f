import PipeMachines
import PipeSupervision
import PipeSystem
import PipeTopology
import PipeWire

/// A replay of a recorded run, step by step. The replay orders the steps so that each event is sent
/// before the event is consumed. The programs of the topology compute the states again.
package final class RunReplay {
  /// A step of the run, or another event in the life of a process.
  package struct Step {
    package enum Kind: Hashable, Sendable {
      case step
      /// The beginning of a process.
      case beginning
      /// The events that the entry into the initial state has sent.
      case initialSends
      /// An event that the node has refused or postponed.
      case refusal
      /// An event that the node has consumed, and that its state has ignored.
      case ignored
      /// The end of a process. The time of an end that is not graceful is unknown, so the time is that
      /// of the last line.
      case end(isGraceful: Bool)
    }

    package let kind: Kind
    package let node: String
    package let incarnation: UInt64
    package let version: UInt64
    /// The number of steps that the process has taken.
    package let index: UInt64
    /// The time of the step, or of the beginning or end of the process. Unit: nanoseconds since 1970.
    package let time: Int64
    /// The name of the log's file.
    package let file: String
    package let line: Int
    /// The state after the step as JSON; empty if the state is unknown.
    package let state: [UInt8]
    /// The step's event, the event's origin and the sent events, as members of a JSON object.
    package let details: [UInt8]
    /// The origin of the event: the name of a pipe, `request`, `effect`, or a timer.
    package let cause: String

    /// Whether this is the beginning of a process.
    package var isBeginning: Bool { kind == .beginning }
  }

  /// A line of a log at which the present programs take another step than the node took in the run.
  package struct Difference: Hashable, Sendable {
    package let node: String
    package let file: String
    package let line: Int
    package let version: UInt64
    package let message: String
  }

  /// The first difference of each node between the run and the present programs, in the order of the
  /// nodes' names.
  package private(set) var differences: [Difference] = []
  /// The incomplete last lines of logs, each as file and line. The replay leaves them out.
  package let tornLines: [String]
  /// Where logs lack steps that a node has taken, with the file and the line.
  package let gaps: [String]
  /// The nodes without a log, although a recorded run has logs of such nodes.
  package let nodesWithoutLog: [String]
  private var cursors: [LogCursor] = []
  /// The highest number of an event that was sent so far, by pipe and stream.
  private var sentNumbers: [String: [UInt64: UInt64]] = [:]
  /// The pipes whose sender has a log.
  private let knownPipes: Set<String>
  private let directory: ScratchDirectory

  /// Creates a replay. The programs of the topology compute the states of the run.
  /// - Parameter isDetailed: Whether the replay also returns refused and ignored events, the events of initial states, and
  ///   the ends of processes.
  package init(_ run: RecordedRun, _ loaded: LoadedTopology, isDetailed: Bool = false) throws {
    let scans = try run.scan(loaded)
    let sortedScans = scans.values.sorted { $0.node < $1.node }
    tornLines = sortedScans.flatMap { scan in
      scan.tornLines.map { "\(scan.logs[$0.log].name):\($0.line)" }
    }
    gaps = sortedScans.flatMap { scan in
      scan.problems.map { _, place, message in
        "\(scan.node)@\(place.version) (\(scan.logs[place.log].name):\(place.line)): \(message)"
      }
    }
    nodesWithoutLog = loaded.topology.nodes.map(\.name)
      .filter { scans[$0] == nil && loaded.isRecorded($0) }
    knownPipes = Set(loaded.pipes.filter { scans[$0.sender] != nil }.map(\.name))
    directory = try ScratchDirectory()
    for node in loaded.topology.nodes {
      guard let scan = scans[node.name],
        let replay = LogReplay(node, of: loaded, answerTimeout: .seconds(10))
      else { continue }
      var states: [String] = []
      for (index, log) in scan.logs.enumerated() {
        let path = "\(directory.path)/\(node.name).\(index)"
        let (report, _) = try replay.run(log.path, through: scan.lastLines[index], states: path)
        states.append(path)
        if let first = report.differences.first,
          !differences.contains(where: { $0.node == node.name })
        {
          differences.append(
            Difference(
              node: node.name, file: log.name, line: first.line, version: first.version,
              message: first.message))
        }
      }
      cursors.append(try LogCursor(scan, states: states, isDetailed: isDetailed))
    }
  }

  /// Returns the next step; `nil` after the last step of the run.
  package func next() throws -> Step? {
    while let cursor = nextCursor() {
      for (pipe, stream, number) in cursor.sent {
        sentNumbers[pipe, default: [:]][stream] = number
      }
      let step = cursor.step
      try cursor.advance()
      if let step { return step }
    }
    return nil
  }

  /// Returns the cursor with the earliest line, among the cursors whose consumed event was already
  /// sent. In a run that does not conform, there may be no such cursor. Then the method returns the
  /// cursor with the earliest line of all. Returns `nil` at the end of the run.
  private func nextCursor() -> LogCursor? {
    var earliest: LogCursor?
    var ready: LogCursor?
    for cursor in cursors where !cursor.hasEnded {
      if earliest.map({ cursor.time < $0.time }) ?? true { earliest = cursor }
      if isReady(cursor), ready.map({ cursor.time < $0.time }) ?? true { ready = cursor }
    }
    return ready ?? earliest
  }

  private func isReady(_ cursor: LogCursor) -> Bool {
    guard let (pipe, stream, number) = cursor.source, knownPipes.contains(pipe) else {
      return true
    }
    return number <= sentNumbers[pipe]?[stream] ?? 0
  }
}

/// A temporary directory for the states of a run.
private final class ScratchDirectory {
  let path: String
  init() throws { path = try FileSystem.makeTemporaryDirectory("/tmp/pr-replay-") }
  deinit { FileSystem.removeTree(path) }
}

/// The position of a replay in the logs of one node.
private final class LogCursor {
  typealias EventID = (pipe: String, stream: UInt64, number: UInt64)

  private let scan: NodeScan
  private let states: [String]
  private let isDetailed: Bool
  /// The index of the current log.
  private var index = -1
  private var reader: StepLogReader?
  private var stateReader: LineReader?
  private(set) var hasEnded = false
  /// The time of the current line. Unit: nanoseconds since 1970.
  private(set) var time: Int64 = 0
  /// The event that the node consumed, according to the current line.
  private(set) var source: EventID?
  /// The events that the node sent, according to the current line.
  private(set) var sent: [EventID] = []
  /// The step of the current line; `nil` for the events of the initial state.
  private(set) var step: RunReplay.Step?
  /// The state and the number of steps of the current process.
  private var latest: (state: [UInt8], index: UInt64, version: UInt64) = ([], 0, 0)

  init(_ scan: NodeScan, states: [String], isDetailed: Bool) throws {
    self.scan = scan
    self.states = states
    self.isDetailed = isDetailed
    try advance()
  }

  private var log: RecordedRun.Log { scan.logs[index] }

  /// Moves to the next line.
  func advance() throws {
    (source, sent, step) = (nil, [], nil)
    var isGraceful = false
    while let reader, let line = try reader.next() {
      if line.kind == .step, line.number > scan.lastLines[index] { break }
      switch line.kind {
      case .ignored where !isDetailed, .refused where !isDetailed: continue
      case .ended:
        if isDetailed { (time, isGraceful) = (line.time, true) }
        continue
      case .step, .ignored, .refused, .initialSends: break
      }
      time = line.time
      source = line.source.map { (reader.string($0.pipe), $0.stream, $0.number) }
      sent = line.sent.map { (reader.string($0.pipe), $0.stream, $0.number) }
      if line.kind == .step { try readState() }
      if line.kind != .initialSends || isDetailed { step = makeStep(line, reader) }
      return
    }
    if isDetailed, reader != nil {
      reader = nil
      step = makeStep(.end(isGraceful: isGraceful), line: 0, details: [], cause: "")
      return
    }
    try beginNextLog()
  }

  private func beginNextLog() throws {
    guard index + 1 < scan.logs.count else {
      hasEnded = true
      return
    }
    index += 1
    reader = try StepLogReader(log.path)
    stateReader = try LineReader(states[index])
    time = log.header.time
    latest = (log.header.begins.bytes, 0, log.header.version)
    step = makeStep(.beginning, line: 1, details: [], cause: "start")
  }

  /// Reads the state after the next step. Each line of the states file contains the step's line
  /// number in the log, a space, and the state.
  private func readState() throws {
    let text = try stateReader?.next()?.text
    let space = text?.firstIndex(of: UInt8(ascii: " "))
    latest.state = text.flatMap { text in space.map { Array(text[($0 + 1)...]) } } ?? []
  }

  private func makeStep(_ line: StepLogLine, _ reader: StepLogReader) -> RunReplay.Step {
    var kind = RunReplay.Step.Kind.step
    switch line.kind {
    case .initialSends: kind = .initialSends
    case .refused: kind = .refusal
    case .ignored: kind = .ignored
    default: (latest.index, latest.version) = (line.step, line.version)
    }
    let own = line.cause.map { (try? JSONValue(parsing: reader[$0]))?.string ?? "" }
    let cause =
      own ?? source?.pipe ?? (line.request.map { _ in "request" })
      ?? (kind == .initialSends ? "start" : nil) ?? (line.transaction.map { _ in "transaction" })
      ?? (line.effect.map { _ in "effect" }) ?? ""
    return makeStep(
      kind, line: line.number, details: details(of: line, reader), cause: cause)
  }

  private func makeStep(
    _ kind: RunReplay.Step.Kind, line: Int, details: [UInt8], cause: String
  ) -> RunReplay.Step {
    RunReplay.Step(
      kind: kind, node: scan.node, incarnation: log.header.incarnation, version: latest.version,
      index: latest.index, time: time, file: log.name, line: line, state: latest.state,
      details: details, cause: cause)
  }

  /// Returns the event of a line, the event's origin, and the sent events, as members of a JSON
  /// object.
  private func details(of line: StepLogLine, _ reader: StepLogReader) -> [UInt8] {
    var text: [UInt8] = []
    if let reason = line.reason {
      text += #","refused":"#.utf8
      text += reader[reason]
      if line.isPostponed { text += #","postponed":true"#.utf8 }
    }
    if let event = line.event {
      text += #","event":"#.utf8
      text += reader[event]
    }
    if let source = line.source {
      text += #","source":"#.utf8
      append(source, reader, to: &text)
      text += "}".utf8
    }
    if let request = line.request {
      text += #","request":{"client":\#(request.client),"number":\#(request.id)}"#.utf8
    }
    if let transaction = line.transaction { text += #","transaction":"\#(transaction)""#.utf8 }
    if let effect = line.effect { text += #","effect":\#(effect)"#.utf8 }
    if line.isInternal { text += #","entry":"internal""#.utf8 }
    guard !line.sent.isEmpty else { return text }
    text += #","sent":["#.utf8
    for (index, event) in line.sent.enumerated() {
      if index > 0 { text += ",".utf8 }
      append(event, reader, to: &text)
      text += #","event":"#.utf8
      text += reader[event.event]
      text += "}".utf8
    }
    text += "]".utf8
    return text
  }

  private func append(
    _ event: StepLogLine.PipedEvent, _ reader: StepLogReader, to text: inout [UInt8]
  ) {
    text += #"{"pipe":""#.utf8
    text += reader[event.pipe]
    text += #"","stream":\#(event.stream),"number":\#(event.number)"#.utf8
  }
}

extension RunReplay.Step {
  /// The step as a JSON object. The members are the same as in the step feed of a node.
  package var json: [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity(200 + state.count + details.count)
    text += #"{"node":"\#(node)","incarnation":\#(incarnation),"version":\#(version)"#.utf8
    text += #","time":\#(time)"#.utf8
    text += details
    if !isBeginning {
      text += #","cause":"#.utf8
      text += JSONValue.string(cause).bytes
    }
    if !state.isEmpty {
      text += (isBeginning ? #","begins":"# : #","state":"#).utf8
      text += state
    }
    text += "}".utf8
    return text
  }
}
