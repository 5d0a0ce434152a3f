import PipeMachines
import PipeSupervision
import PipeSystem
import PipeTopology
import PipeWire

/// A replay of a recorded run, step by step. The replay orders the steps so that each event is sent
/// before the event is consumed. The programs of the topology compute the states again.
package final class RunReplay {
  /// A step of the run, or the beginning of a process.
  package struct Step {
    package let node: String
    package let incarnation: UInt64
    package let version: UInt64
    /// The time of the step, or of the beginning of the process. Unit: nanoseconds since 1970.
    package let time: Int64
    /// The name of the log's file.
    package let file: String
    package let line: Int
    /// The state after the step as JSON; empty if the state is unknown.
    package let state: [UInt8]
    /// The step's event, the event's origin and the sent events, as members of a JSON object.
    package let details: [UInt8]
    /// Whether this is the beginning of a process.
    package let isBeginning: Bool
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
  private var cursors: [LogCursor] = []
  /// The highest number of an event that was sent so far, by pipe and stream.
  private var sentNumbers: [String: [UInt64: UInt64]] = [:]
  /// The pipes whose sender has a log.
  private let knownPipes: Set<String>
  private let directory: ScratchDirectory

  /// Creates a replay. The programs of the topology compute the states of the run.
  package init(_ run: RecordedRun, _ loaded: LoadedTopology) throws {
    let scans = try run.scan(loaded)
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
      cursors.append(try LogCursor(scan, states: states))
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

  init(_ scan: NodeScan, states: [String]) throws {
    self.scan = scan
    self.states = states
    try advance()
  }

  private var log: RecordedRun.Log { scan.logs[index] }

  /// Moves to the next line.
  func advance() throws {
    (source, sent, step) = (nil, [], nil)
    while let reader, let line = try reader.next() {
      if line.kind == .step, line.number > scan.lastLines[index] { break }
      guard line.kind == .step || line.kind == .initialSends else { continue }
      time = line.time
      source = line.source.map { (reader.string($0.pipe), $0.stream, $0.number) }
      sent = line.sent.map { (reader.string($0.pipe), $0.stream, $0.number) }
      if line.kind == .step { step = try makeStep(line, reader) }
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
    step = RunReplay.Step(
      node: scan.node, incarnation: log.header.incarnation, version: log.header.version,
      time: time, file: log.name, line: 1, state: log.header.begins.bytes, details: [],
      isBeginning: true)
  }

  private func makeStep(_ line: StepLogLine, _ reader: StepLogReader) throws -> RunReplay.Step {
    // Each line of the states file contains the step's line number in the log, a space, and the
    // state.
    let text = try stateReader?.next()?.text
    let space = text?.firstIndex(of: UInt8(ascii: " "))
    let state = text.flatMap { text in space.map { Array(text[($0 + 1)...]) } } ?? []
    return RunReplay.Step(
      node: scan.node, incarnation: log.header.incarnation, version: line.version,
      time: line.time, file: log.name, line: line.number, state: state,
      details: details(of: line, reader), isBeginning: false)
  }

  /// Returns the event of a line, the event's origin, and the sent events, as members of a JSON
  /// object.
  private func details(of line: StepLogLine, _ reader: StepLogReader) -> [UInt8] {
    var text: [UInt8] = []
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
    if let cause = line.cause {
      text += #","cause":"#.utf8
      text += reader[cause]
    }
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
    if !state.isEmpty {
      text += (isBeginning ? #","begins":"# : #","state":"#).utf8
      text += state
    }
    text += "}".utf8
    return text
  }
}
