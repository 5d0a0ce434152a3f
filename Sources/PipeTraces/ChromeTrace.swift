import PipeMachines
import PipeSupport
import PipeWire

/// The trace event format of Chromium: a track for each node with a slice for each state, arrows for events
/// of pipes, and a track for the synchronized events of each composite.
struct ChromeTrace {
  private let trace: Trace
  private let start: Int64
  private let end: Int64
  private let tracks: [String: Int]

  /// All tracks belong to one process of the format.
  private static let process: JSONValue = 1
  /// A slice of no length is not to be seen. Unit: nanoseconds.
  private static let leastLength: Int64 = 1_000
  /// The columns after which a slice's name is cut.
  private static let nameLimit = 80

  init(_ trace: Trace) {
    self.trace = trace
    start = trace.steps.first?.time ?? 0
    end = (trace.steps.last?.time ?? 0) + Self.leastLength
    var tracks: [String: Int] = [:]
    for (place, node) in trace.nodes.enumerated() { tracks[node] = place + 1 }
    for name in trace.meetings.map(\.name) where tracks[Self.track(of: name)] == nil {
      tracks[Self.track(of: name)] = tracks.count + 1
    }
    self.tracks = tracks
  }

  func write(to write: (String) throws -> Void) throws {
    try write("{\"displayTimeUnit\":\"ns\",\"otherData\":\(aboutIt.text),\"traceEvents\":[\n")
    var isFirst = true
    func add(_ event: JSONValue) throws {
      try write((isFirst ? "" : ",\n") + event.text)
      isFirst = false
    }
    try add(named("process_name", on: nil, ["name": .string(trace.topology)]))
    for (name, track) in tracks.sorted(by: { $0.value < $1.value }) {
      try add(named("thread_name", on: track, ["name": .string(name)]))
      try add(named("thread_sort_index", on: track, ["sort_index": .integer(Int64(track))]))
    }
    var next: [String: Int64] = [:]
    for place in trace.steps.indices.reversed() {
      let step = trace.steps[place]
      let length = max((next[step.node] ?? end) - step.time, Self.leastLength)
      next[step.node] = step.time
      try add(slice(of: step, length))
      if let cause = step.cause { for event in arrow(from: cause, to: place) { try add(event) } }
    }
    for (number, meeting) in trace.meetings.enumerated() {
      for event in events(of: meeting, number) { try add(event) }
    }
    try write("\n]}\n")
  }

  private var aboutIt: JSONValue {
    [
      "topology": .string(trace.topology),
      "start": .string(Timestamp(nanoseconds: start).description),
      "untold": .object(trace.untold.mapValues { .count($0) }),
    ]
  }

  private static func track(of composites: String) -> String { "synchronized: \(composites)" }

  private func named(_ name: String, on track: Int?, _ arguments: JSONValue) -> JSONValue {
    var event: [String: JSONValue] = [
      "ph": "M", "pid": Self.process, "name": .string(name), "args": arguments,
    ]
    if let track { event["tid"] = .integer(Int64(track)) }
    return .object(event)
  }

  private func slice(of step: Trace.Step, _ length: Int64) -> JSONValue {
    [
      "ph": "X", "pid": Self.process, "tid": track(step), "ts": time(step.time),
      "dur": .number(Double(length) / 1_000), "cat": "state",
      "name": .string(step.stateText.printable.cut(to: Self.nameLimit)),
      "args": [
        "event": step.step.event ?? .null, "state": step.step.state ?? .null,
        "version": .count(step.step.version), "by": .string(step.origin),
      ],
    ]
  }

  private func arrow(from cause: Int, to place: Int) -> [JSONValue] {
    let (sent, taken) = (trace.steps[cause], trace.steps[place])
    return ends(
      id: "p\(place)", named: taken.eventName, from: track(sent), at: sent.time, to: track(taken),
      at: taken.time)
  }

  private func events(of meeting: Trace.Meeting, _ number: Int) -> [JSONValue] {
    let track = JSONValue.integer(Int64(tracks[Self.track(of: meeting.name)] ?? 0))
    let slice: JSONValue = [
      "ph": "X", "pid": Self.process, "tid": track, "ts": time(meeting.start),
      "dur": .number(Double(max(meeting.end - meeting.start, Self.leastLength)) / 1_000),
      "cat": "synchronized", "name": .string(meeting.event.printable.cut(to: Self.nameLimit)),
      "args": [
        "transaction": .string("\(meeting.transaction)"),
        "nodes": .array(meeting.steps.map { .string(trace.steps[$0].node) }),
      ],
    ]
    return [slice]
      + meeting.steps.flatMap { place in
        let step = trace.steps[place]
        return ends(
          id: "m\(number)-\(place)", named: meeting.event, from: track, at: meeting.start,
          to: self.track(step), at: step.time)
      }
  }

  private func ends(
    id: String, named name: String, from source: JSONValue, at start: Int64, to target: JSONValue,
    at end: Int64
  ) -> [JSONValue] {
    func flow(_ phase: JSONValue, _ track: JSONValue, _ moment: Int64) -> [String: JSONValue] {
      [
        "ph": phase, "id": .string(id), "cat": "event",
        "name": .string(name.printable.cut(to: Self.nameLimit)), "pid": Self.process, "tid": track,
        "ts": time(moment),
      ]
    }
    // An arrow does not lead back in time, where two clocks differ by a little.
    var last = flow("f", target, max(start, end))
    last["bp"] = "e"
    return [.object(flow("s", source, start)), .object(last)]
  }

  private func track(_ step: Trace.Step) -> JSONValue { .integer(Int64(tracks[step.node] ?? 0)) }

  /// Unit: microseconds since the first step.
  private func time(_ nanoseconds: Int64) -> JSONValue {
    .number(Double(nanoseconds - start) / 1_000)
  }
}
