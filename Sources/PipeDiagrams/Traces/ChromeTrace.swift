import PipeMachines
import PipeSupport
import PipeWire

/// A trace in Chromium's trace event format.
///
/// It has a track for each node with a slice for each state, arrows for the events of pipes, and a
/// track for the synchronized events of each composite.
struct ChromeTrace {
  private let trace: Trace
  private let start: Int64
  private let end: Int64
  private let tracks: [String: Int]

  /// The process that all tracks belong to; the format requires one.
  private static let process: JSONValue = 1
  /// The minimum length of the last state of the trace, so that it is visible. Unit: nanoseconds.
  private static let minimumLength: Int64 = 1_000
  /// The number of columns at which a slice's name is cut.
  private static let nameLimit = 80

  init(_ trace: Trace) {
    self.trace = trace
    start = trace.steps.first?.time ?? 0
    end = (trace.steps.last?.time ?? 0) + Self.minimumLength
    var tracks: [String: Int] = [:]
    for (position, node) in trace.nodes.enumerated() { tracks[node] = position + 1 }
    for name in trace.synchronizedEvents.map(\.name) where tracks[Self.track(of: name)] == nil {
      tracks[Self.track(of: name)] = tracks.count + 1
    }
    self.tracks = tracks
  }

  func write(to write: (String) throws -> Void) throws {
    try write("{\"displayTimeUnit\":\"ns\",\"otherData\":\(metadata.text),\"traceEvents\":[\n")
    var isFirst = true
    func add(_ event: JSONValue) throws {
      try write((isFirst ? "" : ",\n") + event.text)
      isFirst = false
    }
    try add(metadataEvent("process_name", on: nil, ["name": .string(trace.topology)]))
    for (name, track) in tracks.sorted(by: { $0.value < $1.value }) {
      try add(metadataEvent("thread_name", on: track, ["name": .string(name)]))
      try add(metadataEvent("thread_sort_index", on: track, ["sort_index": .integer(Int64(track))]))
    }
    for (step, length) in zip(trace.steps, lengths) { try add(slice(of: step, length)) }
    for (synchronizedEvent, length) in zip(trace.synchronizedEvents, synchronizedEventLengths) {
      try add(slice(of: synchronizedEvent, length))
    }
    // The slices of an arrow come before it: at the same time, the order of the file counts.
    var number: Int64 = 0
    for arrow in arrows {
      number += 1
      for end in arrow.ends(number) { try add(end) }
    }
    try write("\n]}\n")
  }

  private var metadata: JSONValue {
    [
      "topology": .string(trace.topology),
      "start": .string(Timestamp(nanoseconds: start).description),
      "untold": .object(trace.untold.mapValues { .count($0) }),
    ]
  }

  private static func track(of composites: String) -> String { "synchronized: \(composites)" }

  private func metadataEvent(_ name: String, on track: Int?, _ arguments: JSONValue) -> JSONValue {
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

  private func slice(of synchronizedEvent: Trace.SynchronizedEvent, _ length: Int64) -> JSONValue {
    [
      "ph": "X", "pid": Self.process, "tid": track(synchronizedEvent),
      "ts": time(synchronizedEvent.start),
      "dur": .number(Double(length) / 1_000), "cat": "synchronized",
      "name": .string(synchronizedEvent.event.printable.cut(to: Self.nameLimit)),
      "args": [
        "transaction": .string("\(synchronizedEvent.transaction)"),
        "nodes": .array(synchronizedEvent.steps.map { .string(trace.steps[$0].node) }),
      ],
    ]
  }

  /// The duration of each step's state. Slices of a track must not overlap. Unit: nanoseconds.
  private var lengths: [Int64] {
    var next: [String: Int64] = [:]
    var lengths: [Int64] = []
    for step in trace.steps.reversed() {
      lengths.append((next[step.node] ?? end) - step.time)
      next[step.node] = step.time
    }
    return lengths.reversed()
  }

  /// The duration of each synchronized event, limited by the next one on its track. Unit: nanoseconds.
  private var synchronizedEventLengths: [Int64] {
    var next: [String: Int64] = [:]
    var lengths: [Int64] = []
    for synchronizedEvent in trace.synchronizedEvents.reversed() {
      let length = max(synchronizedEvent.end - synchronizedEvent.start, Self.minimumLength)
      lengths.append(
        next[synchronizedEvent.name].map { min(length, $0 - synchronizedEvent.start) } ?? length)
      next[synchronizedEvent.name] = synchronizedEvent.start
    }
    return lengths.reversed()
  }

  // MARK: Arrows

  private struct Arrow {
    var name: String
    /// The track and time of the arrow's start and of its end.
    var source: (track: JSONValue, time: JSONValue)
    var target: (track: JSONValue, time: JSONValue)

    /// - Parameter number: The identifier that connects the two ends; Perfetto reads only numbers.
    func ends(_ number: Int64) -> [JSONValue] {
      func end(_ phase: JSONValue, _ position: (track: JSONValue, time: JSONValue)) -> [String:
        JSONValue]
      {
        [
          "ph": phase, "id": .integer(number), "cat": "event", "name": .string(name),
          "pid": ChromeTrace.process, "tid": position.track, "ts": position.time,
        ]
      }
      var last = end("f", target)
      // The arrow ends at the enclosing slice, not at the next slice.
      last["bp"] = "e"
      return [.object(end("s", source)), .object(last)]
    }
  }

  /// Arrows from the sender of an event to its receiver, and from a synchronized event to its
  /// participants.
  private var arrows: [Arrow] {
    let sent = trace.steps.compactMap { step in
      step.cause.map { cause in
        let sender = trace.steps[cause]
        return arrow(
          step.eventName, from: (track(sender), sender.time), to: (track(step), step.time))
      }
    }
    return sent
      + trace.synchronizedEvents.flatMap { synchronizedEvent in
        synchronizedEvent.steps.map { position in
          arrow(
            synchronizedEvent.event, from: (track(synchronizedEvent), synchronizedEvent.start),
            to: (track(trace.steps[position]), trace.steps[position].time))
        }
      }
  }

  private func arrow(
    _ name: String, from source: (track: JSONValue, time: Int64),
    to target: (track: JSONValue, time: Int64)
  ) -> Arrow {
    // The clocks of two hosts may differ slightly, but an arrow must not go back in time.
    Arrow(
      name: name.printable.cut(to: Self.nameLimit), source: (source.track, time(source.time)),
      target: (target.track, time(max(source.time, target.time))))
  }

  private func track(_ synchronizedEvent: Trace.SynchronizedEvent) -> JSONValue {
    .integer(Int64(tracks[Self.track(of: synchronizedEvent.name)] ?? 0))
  }

  private func track(_ step: Trace.Step) -> JSONValue { .integer(Int64(tracks[step.node] ?? 0)) }

  /// Returns a time relative to the first step. Unit: microseconds.
  private func time(_ nanoseconds: Int64) -> JSONValue {
    .number(Double(nanoseconds - start) / 1_000)
  }
}
