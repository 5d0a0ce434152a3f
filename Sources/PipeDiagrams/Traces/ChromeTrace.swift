import PipeMachines
import PipeSupport
import PipeWire

/// A trace in Chromium's trace event format.
///
/// Each node has a track, with a slice for each state. Each composite has a track, with a slice for
/// each synchronized event. Arrows show the events in pipes.
struct ChromeTrace {
  private let trace: Trace
  private let startTime: Int64
  private let endTime: Int64
  private let trackNumbers: [String: Int]

  /// The process identifier of all tracks; the format requires one.
  private static let processID: JSONValue = 1
  /// The minimum duration of a slice. Without it, some slices would be invisible, such as the last
  /// state of the trace. Unit: nanoseconds.
  private static let minimumLength: Int64 = 1_000
  /// The maximum width of a slice's name; longer names are cut. Unit: columns.
  private static let nameLimit = 80

  init(_ trace: Trace) {
    self.trace = trace
    startTime = trace.steps.first?.time ?? 0
    endTime = (trace.steps.last?.time ?? 0) + Self.minimumLength
    var trackNumbers: [String: Int] = [:]
    for (position, node) in trace.nodes.enumerated() { trackNumbers[node] = position + 1 }
    for name in trace.synchronizedEvents.map(\.name) where trackNumbers[Self.track(of: name)] == nil
    {
      trackNumbers[Self.track(of: name)] = trackNumbers.count + 1
    }
    self.trackNumbers = trackNumbers
  }

  func write(to write: (String) throws -> Void) throws {
    try write("{\"displayTimeUnit\":\"ns\",\"otherData\":\(metadata.text),\"traceEvents\":[\n")
    var isFirst = true
    func add(_ event: JSONValue) throws {
      try write((isFirst ? "" : ",\n") + event.text)
      isFirst = false
    }
    try add(metadataEvent("process_name", on: nil, ["name": .string(trace.topology)]))
    for (name, track) in trackNumbers.sorted(by: { $0.value < $1.value }) {
      try add(metadataEvent("thread_name", on: track, ["name": .string(name)]))
      try add(metadataEvent("thread_sort_index", on: track, ["sort_index": .integer(Int64(track))]))
    }
    for (step, length) in zip(trace.steps, stateDurations) { try add(slice(of: step, length)) }
    for (synchronizedEvent, length) in zip(trace.synchronizedEvents, synchronizedEventLengths) {
      try add(slice(of: synchronizedEvent, length))
    }
    // Slices are written before arrows: at equal times, the order in the file decides, and an arrow
    // must follow its slice.
    var arrowNumber: Int64 = 0
    for arrow in arrows {
      arrowNumber += 1
      for end in arrow.endEvents(arrowNumber) { try add(end) }
    }
    try write("\n]}\n")
  }

  private var metadata: JSONValue {
    [
      "topology": .string(trace.topology),
      "start": .string(Timestamp(nanoseconds: startTime).description),
      "untold": .object(trace.missingStepCounts.mapValues { .count($0) }),
    ]
  }

  private static func track(of composites: String) -> String { "synchronized: \(composites)" }

  private func metadataEvent(_ name: String, on track: Int?, _ arguments: JSONValue) -> JSONValue {
    var event: [String: JSONValue] = [
      "ph": "M", "pid": Self.processID, "name": .string(name), "args": arguments,
    ]
    if let track { event["tid"] = .integer(Int64(track)) }
    return .object(event)
  }

  private func slice(of step: Trace.Step, _ length: Int64) -> JSONValue {
    var arguments: [String: JSONValue] = [
      "event": step.nodeStep.event ?? .null, "state": step.nodeStep.state ?? .null,
      "version": .count(step.nodeStep.version), "by": .string(step.origin),
    ]
    if let instance = step.nodeStep.instance { arguments["instance"] = .string(instance) }
    return [
      "ph": "X", "pid": Self.processID, "tid": track(step), "ts": time(step.time),
      "dur": .number(Double(length) / 1_000), "cat": "state",
      "name": .string(step.stateText.printable.cut(to: Self.nameLimit)),
      "args": .object(arguments),
    ]
  }

  private func slice(of synchronizedEvent: Trace.SynchronizedEvent, _ length: Int64) -> JSONValue {
    [
      "ph": "X", "pid": Self.processID, "tid": track(synchronizedEvent),
      "ts": time(synchronizedEvent.startTime),
      "dur": .number(Double(length) / 1_000), "cat": "synchronized",
      "name": .string(synchronizedEvent.event.printable.cut(to: Self.nameLimit)),
      "args": [
        "transaction": .string("\(synchronizedEvent.transaction)"),
        "nodes": .array(synchronizedEvent.stepIndices.map { .string(trace.steps[$0].name) }),
      ],
    ]
  }

  /// For each step, the duration of the state that the step enters. The slices of a track must not
  /// overlap. Unit: nanoseconds.
  private var stateDurations: [Int64] {
    var nextStartTimes: [String: Int64] = [:]
    var lengths: [Int64] = []
    for step in trace.steps.reversed() {
      lengths.append((nextStartTimes[step.node] ?? endTime) - step.time)
      nextStartTimes[step.node] = step.time
    }
    return lengths.reversed()
  }

  /// The durations of the synchronized events. Unit: nanoseconds.
  ///
  /// Each event ends, at the latest, when the next event on the same track begins.
  private var synchronizedEventLengths: [Int64] {
    var nextStartTimes: [String: Int64] = [:]
    var lengths: [Int64] = []
    for synchronizedEvent in trace.synchronizedEvents.reversed() {
      let length = max(synchronizedEvent.endTime - synchronizedEvent.startTime, Self.minimumLength)
      lengths.append(
        nextStartTimes[synchronizedEvent.name].map { min(length, $0 - synchronizedEvent.startTime) }
          ?? length)
      nextStartTimes[synchronizedEvent.name] = synchronizedEvent.startTime
    }
    return lengths.reversed()
  }

  // MARK: Arrows between tracks

  private struct Arrow {
    var name: String
    /// The track and time at which the arrow starts (`source`) and ends (`target`).
    var source: (track: JSONValue, time: JSONValue)
    var target: (track: JSONValue, time: JSONValue)

    /// Returns two records: one for the arrow's start, and one for the arrow's end.
    /// - Parameter number: The identifier that both records share. Perfetto requires a number.
    func endEvents(_ number: Int64) -> [JSONValue] {
      func endEvent(_ phase: JSONValue, _ position: (track: JSONValue, time: JSONValue)) -> [String:
        JSONValue]
      {
        [
          "ph": phase, "id": .integer(number), "cat": "event", "name": .string(name),
          "pid": ChromeTrace.processID, "tid": position.track, "ts": position.time,
        ]
      }
      var last = endEvent("f", target)
      // Attaches the arrow's end to the slice at this time. By default, it would be attached to the
      // next slice.
      last["bp"] = "e"
      return [.object(endEvent("s", source)), .object(last)]
    }
  }

  /// The arrows from senders of events to receivers, and from synchronized events to participants.
  private var arrows: [Arrow] {
    let sent = trace.steps.compactMap { step in
      step.causeIndex.map { cause in
        let sender = trace.steps[cause]
        return arrow(
          step.eventName, from: (track(sender), sender.time), to: (track(step), step.time))
      }
    }
    return sent
      + trace.synchronizedEvents.flatMap { synchronizedEvent in
        synchronizedEvent.stepIndices.map { position in
          arrow(
            synchronizedEvent.event, from: (track(synchronizedEvent), synchronizedEvent.startTime),
            to: (track(trace.steps[position]), trace.steps[position].time))
        }
      }
  }

  private func arrow(
    _ name: String, from source: (track: JSONValue, time: Int64),
    to target: (track: JSONValue, time: Int64)
  ) -> Arrow {
    // The clocks of two hosts may differ slightly. The arrow's end is adjusted, so that it is not
    // before the start.
    Arrow(
      name: name.printable.cut(to: Self.nameLimit), source: (source.track, time(source.time)),
      target: (target.track, time(max(source.time, target.time))))
  }

  private func track(_ synchronizedEvent: Trace.SynchronizedEvent) -> JSONValue {
    .integer(Int64(trackNumbers[Self.track(of: synchronizedEvent.name)] ?? 0))
  }

  private func track(_ step: Trace.Step) -> JSONValue {
    .integer(Int64(trackNumbers[step.node] ?? 0))
  }

  /// Returns a time relative to the first step. Unit: microseconds.
  private func time(_ nanoseconds: Int64) -> JSONValue {
    .number(Double(nanoseconds - startTime) / 1_000)
  }
}
