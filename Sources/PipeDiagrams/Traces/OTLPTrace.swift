import PipeMachines
import PipeWire

/// A trace in OpenTelemetry's OTLP JSON format.
///
/// Each step has a span, which begins when the step's event is sent. The span's parent is the span
/// of the step that sent the event. Each synchronized event has a span as well, which is the parent
/// of the participants' spans.
struct OTLPTrace {
  private let trace: Trace

  /// The kind of a span, with its number in OTLP.
  private enum Kind: Int64 { case `internal` = 1, server = 2, consumer = 5 }

  init(_ trace: Trace) { self.trace = trace }

  func write(to write: (String) throws -> Void) throws {
    try write("{\"resourceSpans\":[")
    let roots = self.rootSpanIDs
    var byNode: [String: [Int]] = [:]
    for (place, step) in trace.steps.enumerated() { byNode[step.node, default: []].append(place) }
    var isFirst = true
    func add(_ name: String, _ spans: [JSONValue]) throws {
      guard !spans.isEmpty else { return }
      try write((isFirst ? "\n" : ",\n") + resource(name, spans).text)
      isFirst = false
    }
    for node in trace.nodes {
      try add(node, (byNode[node] ?? []).map { span(of: $0, rootID: roots[$0]) })
    }
    var synchronizedEvents: [String: [JSONValue]] = [:]
    for synchronizedEvent in trace.synchronizedEvents {
      synchronizedEvents[synchronizedEvent.name, default: []].append(span(of: synchronizedEvent))
    }
    for (name, spans) in synchronizedEvents.sorted(by: { $0.key < $1.key }) {
      try add("synchronized: \(name)", spans)
    }
    try write("\n]}\n")
  }

  /// For each step, the identifier of its trace. All steps in a chain of causes have the trace
  /// identifier of the chain's first step.
  private var rootSpanIDs: [SpanID] {
    var rootSpanIDs: [SpanID?] = Array(repeating: nil, count: trace.steps.count)
    for place in trace.steps.indices where rootSpanIDs[place] == nil {
      // If clocks differ slightly, a cause may appear to be later than its effect, so the causes
      // may form a cycle. The number of iterations is therefore limited.
      var causePath: [Int] = []
      var nextIndex: Int? = place
      while let step = nextIndex, rootSpanIDs[step] == nil, causePath.count < trace.steps.count {
        causePath.append(step)
        nextIndex =
          trace.steps[step].synchronizedEventIndex == nil ? trace.steps[step].causeIndex : nil
      }
      let rootID = nextIndex.flatMap { rootSpanIDs[$0] } ?? rootOfStep(of: causePath.last ?? place)
      for step in causePath { rootSpanIDs[step] = rootID }
    }
    return rootSpanIDs.enumerated().map { $1 ?? rootOfStep(of: $0) }
  }

  private func rootOfStep(of place: Int) -> SpanID {
    trace.steps[place].synchronizedEventIndex.map { id(of: trace.synchronizedEvents[$0]) }
      ?? id(of: trace.steps[place])
  }

  private func id(of step: Trace.Step) -> SpanID {
    SpanID("\(trace.topology) \(step.node) \(step.nodeStep.incarnation) \(step.nodeStep.index)")
  }

  private func id(of synchronizedEvent: Trace.SynchronizedEvent) -> SpanID {
    SpanID("\(trace.topology) together \(synchronizedEvent.name) \(synchronizedEvent.transaction)")
  }

  private func resource(_ name: String, _ spans: [JSONValue]) -> JSONValue {
    [
      "resource": [
        "attributes": [
          attribute("service.name", name), attribute("service.namespace", trace.topology),
        ]
      ],
      "scopeSpans": [["scope": ["name": "piperuntime"], "spans": .array(spans)]],
    ]
  }

  private func span(of place: Int, rootID: SpanID) -> JSONValue {
    let step = trace.steps[place]
    var start = step.time
    var span: [String: JSONValue] = [
      "traceId": .string(rootID.trace), "spanId": .string(id(of: step).span),
      "name": .string(step.eventName), "endTimeUnixNano": .string(String(step.time)),
    ]
    var kind = Kind.internal
    if let synchronizedEvent = step.synchronizedEventIndex {
      span["parentSpanId"] = .string(id(of: trace.synchronizedEvents[synchronizedEvent]).span)
    } else if let cause = step.causeIndex {
      span["parentSpanId"] = .string(id(of: trace.steps[cause]).span)
      start = min(start, trace.steps[cause].time)
    }
    if step.nodeStep.source != nil {
      kind = .consumer
    } else if step.nodeStep.request != nil {
      kind = .server
    }
    span["kind"] = .integer(kind.rawValue)
    span["startTimeUnixNano"] = .string(String(start))
    span["attributes"] = .array(attributes(of: step))
    return .object(span)
  }

  private func attributes(of step: Trace.Step) -> [JSONValue] {
    var all = [
      attribute("piperuntime.state", step.stateText),
      attribute("piperuntime.event", step.eventText),
      attribute("piperuntime.origin", step.origin),
      attribute("piperuntime.version", String(step.nodeStep.version)),
      attribute("piperuntime.incarnation", String(step.nodeStep.incarnation)),
    ]
    if let instance = step.nodeStep.instance {
      all.append(attribute("piperuntime.instance", instance))
    }
    if let from = step.nodeStep.from { all.append(attribute("piperuntime.from", from.caseText)) }
    if let source = step.nodeStep.source {
      all += [
        attribute("messaging.system", "piperuntime"),
        attribute("messaging.destination.name", source.pipe),
        attribute("messaging.message.id", "\(source.stream).\(source.number)"),
      ]
    }
    return all
  }

  private func span(of synchronizedEvent: Trace.SynchronizedEvent) -> JSONValue {
    let id = id(of: synchronizedEvent)
    return [
      "traceId": .string(id.trace), "spanId": .string(id.span),
      "name": .string(synchronizedEvent.event),
      "kind": .integer(Kind.internal.rawValue),
      "startTimeUnixNano": .string(String(synchronizedEvent.startTime)),
      "endTimeUnixNano": .string(String(synchronizedEvent.endTime)),
      "attributes": [
        attribute("piperuntime.transaction", "\(synchronizedEvent.transaction)"),
        attribute(
          "piperuntime.nodes",
          synchronizedEvent.stepIndices.map { trace.steps[$0].name }.joined(separator: ", ")),
      ],
    ]
  }

  private func attribute(_ key: String, _ value: String) -> JSONValue {
    ["key": .string(key), "value": ["stringValue": .string(value)]]
  }
}

/// The identifiers of a span and of its trace, derived from a text. Equal texts have equal
/// identifiers.
private struct SpanID {
  private let low: UInt64
  private let high: UInt64

  init(_ text: String) {
    low = Self.hash(text, from: 0xCBF2_9CE4_8422_2325)
    high = Self.hash(text, from: 0x9AE1_6A3B_2F90_404F)
  }

  var span: String { Self.hexadecimal(low) }
  var trace: String { Self.hexadecimal(high) + Self.hexadecimal(low) }

  /// Returns the FNV-1a hash of a text, with a final mix. The result is never 0, since 0 means "no
  /// identifier" in OTLP.
  private static func hash(_ text: String, from start: UInt64) -> UInt64 {
    var hash = start
    for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    hash = (hash ^ (hash >> 30)) &* 0xBF58_476D_1CE4_E5B9
    hash ^= hash >> 27
    return max(1, hash)
  }

  private static func hexadecimal(_ number: UInt64) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}
