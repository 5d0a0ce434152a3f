import Glibc
import PipeRuntime

/// Measures the processor time of encoding and decoding an event as JSON, in one thread.
struct CodingSection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  private static let eventWithPayload = Sink.Event.reading(
    sequence: Payload.firstSequence, text: Payload.text)

  func run(_ report: inout Report) throws {
    let directCodec = EventCodec<Sink.Event>(isSynthesized: true)
    let codableCodec = EventCodec<Sink.Event>()
    let text = try codableCodec.encode(Self.eventWithPayload)
    let label = try codableCodec.encode(.tick)
    let copy = Self.quantity(measureCopying(text))
    add(
      "written in place", measureEncoding(Self.eventWithPayload, by: directCodec), copy, 0.15e-6,
      &report)
    add(
      "written by way of Codable", measureEncoding(Self.eventWithPayload, by: codableCodec), copy,
      nil, &report)
    add("read in place", measureDecoding(text, by: directCodec), copy, 0.2e-6, &report)
    add("read by way of Codable", measureDecoding(text, by: codableCodec), copy, nil, &report)
    let shortCopy = Self.quantity(measureCopying(label))
    add(
      "written, without payload", measureEncoding(.tick, by: directCodec), shortCopy, nil, &report)
    add("read, without payload", measureDecoding(label, by: directCodec), shortCopy, nil, &report)
    report.note(
      "\(Payload.byteCount) bytes of JSON in a case's own; processor time of one thread, the least of "
        + "\(repeats) × \(count.grouped);")
    report.note("baseline: the same bytes copied")
  }

  private var count: Int { setting.pick(500_000, quick: 50_000) }
  private var repeats: Int { setting.pick(5, quick: 3) }

  private func add(
    _ name: String, _ seconds: Double, _ baseline: Quantity, _ limit: Double?,
    _ report: inout Report
  ) {
    report.add(
      Figure(
        name: "an event " + name, value: Self.quantity(seconds), baseline: baseline,
        target: limit.map { .atMost(Self.quantity($0)) }))
  }

  private static func quantity(_ seconds: Double) -> Quantity { .seconds(seconds) }

  private func measureEncoding(_ event: Sink.Event, by codec: EventCodec<Sink.Event>) -> Double {
    var bytes: [UInt8] = []
    return minimumTime {
      bytes.removeAll(keepingCapacity: true)
      try? codec.encode(event, into: &bytes)
    }
  }

  private func measureDecoding(_ text: [UInt8], by codec: EventCodec<Sink.Event>) -> Double {
    text.withUnsafeBytes { text in minimumTime { blackHole(try? codec.decode(text)) } }
  }

  private func measureCopying(_ text: [UInt8]) -> Double {
    var bytes: [UInt8] = []
    return minimumTime {
      bytes.removeAll(keepingCapacity: true)
      bytes.append(contentsOf: text)
    }
  }

  /// Returns the smallest processor time of one call, over several measurements. Unit: seconds.
  private func minimumTime(_ body: () -> Void) -> Double {
    (0..<repeats).map { _ in
      let start = Self.processorTime
      for _ in 0..<count { body() }
      return (Self.processorTime - start) / Double(count)
    }.min() ?? .nan
  }

  /// The processor time that this thread has used. Unit: seconds.
  private static var processorTime: Double {
    var now = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return Double(now.tv_sec) + Double(now.tv_nsec) / 1e9
  }
}
