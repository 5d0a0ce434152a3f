import PipeMachines
import PipeWire

/// A trace in OpenTelemetry's OTLP JSON format.
///
/// It has a span for each step, from the sending of its event to the step, below the span of the
/// step that sent the event. It has a span for each synchronized event, above the spans of its
/// participants.
struct OTLPTrace {
  private let trace: Trace

  /// The kind of a span, by its number in OTLP.
  private enum Kind: Int64 { case `internal` = 1, server = 2, consumer = 5 }

  init(_ trace: Trace) { self.trace = trace }

  func write(to write: (String) throws -> Void) throws {
    try write("{\"resourceSpans\":[")
    let roots = self.roots
    var byNode: [String: [Int]] = [:]
    for (place, step) in trace.steps.enumerated() { byNode[step.node, default: []].append(place) }
    var isFirst = true
    func add(_ name: String, _ spans: [JSONValue]) throws {
      guard !spans.isEmpty else { return }
      try write((isFirst ? "\n" : ",\n") + resource(name, spans).text)
      isFirst = false
    }
    for node in trace.nodes {
      try add(node, (byNode[node] ?? []).map { span(of: $0, root: roots[$0]) })
    }
    var meetings: [String: [JSONValue]] = [:]
    for meeting in trace.meetings { meetings[meeting.name, default: []].append(span(of: meeting)) }
    for (name, spans) in meetings.sorted(by: { $0.key < $1.key }) {
      try add("synchronized: \(name)", spans)
    }
    try write("\n]}\n")
  }

  /// The trace identifier of each step, which comes from its first cause.
  private var roots: [SpanID] {
    var roots: [SpanID?] = Array(repeating: nil, count: trace.steps.count)
    for place in trace.steps.indices where roots[place] == nil {
      // If clocks differ slightly, a cause may come after its effect.
      var path: [Int] = []
      var next: Int? = place
      while let step = next, roots[step] == nil, path.count < trace.steps.count {
        path.append(step)
        next = trace.steps[step].meeting == nil ? trace.steps[step].cause : nil
      }
      let root = next.flatMap { roots[$0] } ?? ownRoot(of: path.last ?? place)
      for step in path { roots[step] = root }
    }
    return roots.enumerated().map { $1 ?? ownRoot(of: $0) }
  }

  private func ownRoot(of place: Int) -> SpanID {
    trace.steps[place].meeting.map { id(of: trace.meetings[$0]) } ?? id(of: trace.steps[place])
  }

  private func id(of step: Trace.Step) -> SpanID {
    SpanID("\(trace.topology) \(step.node) \(step.step.incarnation) \(step.step.place)")
  }

  private func id(of meeting: Trace.Meeting) -> SpanID {
    SpanID("\(trace.topology) together \(meeting.name) \(meeting.transaction)")
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

  private func span(of place: Int, root: SpanID) -> JSONValue {
    let step = trace.steps[place]
    var start = step.time
    var span: [String: JSONValue] = [
      "traceId": .string(root.trace), "spanId": .string(id(of: step).span),
      "name": .string(step.eventName), "endTimeUnixNano": .string(String(step.time)),
    ]
    var kind = Kind.internal
    if let meeting = step.meeting {
      span["parentSpanId"] = .string(id(of: trace.meetings[meeting]).span)
    } else if let cause = step.cause {
      span["parentSpanId"] = .string(id(of: trace.steps[cause]).span)
      start = min(start, trace.steps[cause].time)
    }
    if step.step.source != nil {
      kind = .consumer
    } else if step.step.request != nil {
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
      attribute("piperuntime.version", String(step.step.version)),
      attribute("piperuntime.incarnation", String(step.step.incarnation)),
    ]
    if let from = step.step.from { all.append(attribute("piperuntime.from", from.caseText)) }
    if let source = step.step.source {
      all += [
        attribute("messaging.system", "piperuntime"),
        attribute("messaging.destination.name", source.pipe),
        attribute("messaging.message.id", "\(source.stream).\(source.number)"),
      ]
    }
    return all
  }

  private func span(of meeting: Trace.Meeting) -> JSONValue {
    let id = id(of: meeting)
    return [
      "traceId": .string(id.trace), "spanId": .string(id.span), "name": .string(meeting.event),
      "kind": .integer(Kind.internal.rawValue),
      "startTimeUnixNano": .string(String(meeting.start)),
      "endTimeUnixNano": .string(String(meeting.end)),
      "attributes": [
        attribute("piperuntime.transaction", "\(meeting.transaction)"),
        attribute(
          "piperuntime.nodes", meeting.steps.map { trace.steps[$0].node }.joined(separator: ", ")),
      ],
    ]
  }

  private func attribute(_ key: String, _ value: String) -> JSONValue {
    ["key": .string(key), "value": ["stringValue": .string(value)]]
  }
}

/// The identifiers of a span and a trace, derived from a text: the same text gives the same identifiers.
private struct SpanID {
  private let low: UInt64
  private let high: UInt64

  init(_ text: String) {
    low = Self.hash(text, from: 0xCBF2_9CE4_8422_2325)
    high = Self.hash(text, from: 0x9AE1_6A3B_2F90_404F)
  }

  var span: String { Self.hexadecimal(low) }
  var trace: String { Self.hexadecimal(high) + Self.hexadecimal(low) }

  /// Returns the FNV-1a hash with a final mix; never 0, which means no identifier.
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
