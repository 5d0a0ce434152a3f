import Glibc
import PipeMachines
import PipeSystem
import PipeWire

/// Replays the steps of a step log, and compares the resulting states and sent events with the log.
final class StepLogReplay<
  State: DSLCompatible & Codable, Event: DSLCompatible & Codable, Output: DSLCompatible
> {
  private let evaluator: StepEvaluator<State, Event, Output>
  private let events: EventCodec<Event>
  private let states: EventCodec<State>
  private let sentEvents: SentEvents
  private var report = EvaluatorReplayReport()
  /// Whether the state before the next step is known.
  private var isStateKnown = false
  /// The state after the last step as JSON.
  private var stateText: [UInt8] = []

  /// The number of lines between two progress notifications to the caller.
  private static var linesPerAnnouncement: Int { 1_024 }

  init(
    _ evaluator: StepEvaluator<State, Event, Output>, events: EventCodec<Event>,
    states: EventCodec<State>, sentEvents: SentEvents
  ) {
    self.evaluator = evaluator
    self.events = events
    self.states = states
    self.sentEvents = sentEvents
  }

  func run(_ request: EvaluatorReplay, announce: (Int) -> Bool) throws -> EvaluatorReplayReport {
    let reader = try StepLogReader(request.log)
    let output = try request.states.map { try ReplayedStates($0) }
    guard let header = reader.header else { return report }
    begin(in: header.begins.bytes.withUnsafeBytes { try? states.decode($0) })
    while reader.lineNumber < request.through {
      let next = reader.lineNumber + 1
      if next % Self.linesPerAnnouncement == 0 || request.announces.map({ next >= $0 }) == true,
        !announce(next)
      {
        return report
      }
      guard let line = try reader.next() else { break }
      guard line.kind == .step else { continue }
      report.steps += 1
      take(line, of: reader, header.hashing)
      try output?.append(isStateKnown ? stateText : [], of: line)
    }
    try output?.write()
    return report
  }

  private func begin(in state: State?) {
    isStateKnown = state != nil
    guard let state else { return }
    evaluator.beginSequence(in: state)
    stateText.removeAll(keepingCapacity: true)
    try? states.encode(state, into: &stateText)
  }

  // MARK: Replaying steps

  private func take(_ line: StepLogLine, of reader: StepLogReader, _ hash: StateHash) {
    guard isStateKnown else {
      report.unverified += 1
      return resume(after: line, of: reader)
    }
    sentEvents.removeAll()
    let answer: StepEvaluator<State, Event, Output>.SequenceAnswer
    do {
      answer = try evaluator.advanceSequence(on: line.event.map { try events.decode(reader[$0]) })
    } catch {
      return differ(line, of: reader, "the program cannot take the step: \(error)")
    }
    switch answer {
    case .taken: compare(line, of: reader, hash)
    case .asynchronous, .failed:
      report.unverified += 1
      isStateKnown = false
      resume(after: line, of: reader)
    case .refused(let refusal):
      let input = line.event.map { reader.string($0) } ?? "a timer"
      differ(
        line, of: reader,
        "the node accepted \(input) in state \(text(of: stateText)), but the machine refuses it: "
          + refusal.wording)
    }
  }

  private func compare(_ line: StepLogLine, of reader: StepLogReader, _ hash: StateHash) {
    // Keeps the former state for the message about a difference.
    var former: [UInt8] = []
    swap(&former, &stateText)
    defer { if stateText.isEmpty { isStateKnown = false } }
    stateText.reserveCapacity(former.count)
    guard (try? states.encode(evaluator.sequenceState, into: &stateText)) != nil,
      let expected = line.hash
    else {
      report.unverified += 1
      return
    }
    guard hash.hash(of: stateText) == expected else {
      let recorded = line.state.map { "state \(text(of: reader[$0]))" } ?? "another state"
      return differ(
        line, of: reader,
        "the node went to \(recorded), and the machine goes from \(text(of: former)) to "
          + text(of: stateText))
    }
    compareSent(line, of: reader)
  }

  /// Reports that the machine does not take the step of a log line. The comparison continues after
  /// this line if the line contains a whole state, and otherwise after the next such line.
  private func differ(_ line: StepLogLine, of reader: StepLogReader, _ message: String) {
    report.add(
      .init(kind: .step, line: line.number, version: line.version, message: message))
    isStateKnown = false
    resume(after: line, of: reader)
  }

  private func resume(after line: StepLogLine, of reader: StepLogReader) {
    guard let state = line.state else { return }
    begin(in: try? states.decode(reader[state]))
  }

  // MARK: Comparing sent events

  private func compareSent(_ line: StepLogLine, of reader: StepLogReader) {
    let computed = sentEvents.events
    if line.sent.count == computed.count,
      zip(line.sent, computed).allSatisfy({ sent, own in
        Self.equal(reader[sent.pipe], own.pipe) && Self.equal(reader[sent.event], own.event)
      })
    {
      return
    }
    // Events of different pipes can be in another order, and the JSON of an event can be formatted
    // differently.
    var own: [String: [JSONValue]] = [:]
    for (pipe, event) in computed {
      own[pipe, default: []].append((try? JSONValue(parsing: event)) ?? .null)
    }
    var recorded: [String: [JSONValue]] = [:]
    for sent in line.sent {
      recorded[reader.string(sent.pipe), default: []]
        .append((try? JSONValue(parsing: reader[sent.event])) ?? .null)
    }
    for pipe in Set(own.keys).union(recorded.keys).sorted() where own[pipe] != recorded[pipe] {
      report.add(
        .init(
          kind: .events, line: line.number, version: line.version,
          message: "the node has sent \(Self.list(recorded[pipe])) into pipe '\(pipe)', and the "
            + "machine sends \(Self.list(own[pipe]))"))
      return
    }
  }

  private static func list(_ events: [JSONValue]?) -> String {
    events.map { $0.map(\.text).joined(separator: ", ") } ?? "nothing"
  }

  private static func equal(_ text: UnsafeRawBufferPointer, _ bytes: [UInt8]) -> Bool {
    bytes.withUnsafeBytes { bytes in
      text.count == bytes.count
        && (text.isEmpty || memcmp(text.baseAddress!, bytes.baseAddress!, text.count) == 0)
    }
  }

  private static func equal(_ text: UnsafeRawBufferPointer, _ name: String) -> Bool {
    var name = name
    return name.withUTF8 { $0.elementsEqual(text) }
  }

  private func text(of state: some Sequence<UInt8>) -> String {
    (try? JSONValue(parsing: state).text) ?? "?"
  }
}

/// A file for the states of a replayed log. The file has a line for each step: the number of the
/// step's line in the log, and the state. If the state is unknown, nothing follows the number.
private final class ReplayedStates {
  private let path: String
  private let descriptor: Int32
  private var text: [UInt8] = []

  init(_ path: String) throws(SystemError) {
    self.path = path
    descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
  }

  deinit { close(descriptor) }

  func append(_ state: [UInt8], of line: StepLogLine) throws(SystemError) {
    text += "\(line.number) ".utf8
    text += state
    text.append(UInt8(ascii: "\n"))
    if text.count > 1 << 18 { try write() }
  }

  func write() throws(SystemError) {
    defer { text.removeAll(keepingCapacity: true) }
    try FileSystem.write(text, to: descriptor, path: path)
  }
}
