import PipeInspector
import PipeRuntime
import Testing

@Suite("Metrics as text")
struct MetricTextTests {
  private static let families: [MetricFamily] = {
    var info = MetricFamily(.info, "pipe_node", "What it is.")
    info.add(.count(1), [.init("node", "door"), .init("kind", "machine")])
    var events = MetricFamily(.counter, "pipe_events", "Taken,\nor \"refused\", or \\.")
    events.add(.count(3), [.init("node", "a \"b\"\\\n")])
    events.add(.count(.max), [])
    var cpu = MetricFamily(.counter, "pipe_cpu_seconds", unit: "seconds", "Time.")
    cpu.add(.number(0.25), [])
    cpu.add(.number(1_795_453_925.5), [])
    cpu.add(.number(2), [])
    var steps = MetricFamily(.histogram, "pipe_step_seconds", unit: "seconds", "Steps.")
    var durations = DurationCounts()
    for time in [1, 1_000, 1_001, 5_000_000_000] { durations.add(nanoseconds: Int64(time)) }
    steps.add(.durations(durations), [.init("node", "door")])
    return [info, events, MetricFamily(.gauge, "pipe_none", "Without figures."), cpu, steps]
  }()

  private static func text(_ format: MetricFormat) -> String {
    String(decoding: MetricText.of(families, as: format), as: UTF8.self)
  }

  private static let buckets = [
    ("1e-06", 2), ("4e-06", 3), ("1.6e-05", 3), ("6.4e-05", 3), ("0.000256", 3), ("0.001024", 3),
    ("0.004096", 3), ("0.016384", 3), ("0.065536", 3), ("0.262144", 3), ("1.048576", 3),
    ("4.194304", 3), ("+Inf", 4),
  ].map { "pipe_step_seconds_bucket{node=\"door\",le=\"\($0.0)\"} \($0.1)" }.joined(separator: "\n")

  @Test("Metrics are written in the Prometheus format")
  func prometheus() {
    #expect(
      Self.text(.prometheus) == """
        # HELP pipe_node_info What it is.
        # TYPE pipe_node_info gauge
        pipe_node_info{node="door",kind="machine"} 1
        # HELP pipe_events_total Taken,\\nor "refused", or \\\\.
        # TYPE pipe_events_total counter
        pipe_events_total{node="a \\"b\\"\\\\\\n"} 3
        pipe_events_total 18446744073709551615
        # HELP pipe_cpu_seconds_total Time.
        # TYPE pipe_cpu_seconds_total counter
        pipe_cpu_seconds_total 0.25
        pipe_cpu_seconds_total 1795453925.5
        pipe_cpu_seconds_total 2
        # HELP pipe_step_seconds Steps.
        # TYPE pipe_step_seconds histogram
        \(Self.buckets)
        pipe_step_seconds_count{node="door"} 4
        pipe_step_seconds_sum{node="door"} 5.000002002

        """)
  }

  @Test("Metrics are written in the OpenMetrics format")
  func openMetrics() {
    #expect(
      Self.text(.openMetrics) == """
        # HELP pipe_node What it is.
        # TYPE pipe_node info
        pipe_node_info{node="door",kind="machine"} 1
        # HELP pipe_events Taken,\\nor \\"refused\\", or \\\\.
        # TYPE pipe_events counter
        pipe_events_total{node="a \\"b\\"\\\\\\n"} 3
        pipe_events_total 18446744073709551615
        # HELP pipe_cpu_seconds Time.
        # TYPE pipe_cpu_seconds counter
        # UNIT pipe_cpu_seconds seconds
        pipe_cpu_seconds_total 0.25
        pipe_cpu_seconds_total 1795453925.5
        pipe_cpu_seconds_total 2
        # HELP pipe_step_seconds Steps.
        # TYPE pipe_step_seconds histogram
        # UNIT pipe_step_seconds seconds
        \(Self.buckets)
        pipe_step_seconds_count{node="door"} 4
        pipe_step_seconds_sum{node="door"} 5.000002002
        # EOF

        """)
  }

  @Test(
    "A client gets the format it prefers, and Prometheus by default",
    arguments: [
      (nil, .prometheus), ("", .prometheus), ("*/*", .prometheus), ("text/html", .prometheus),
      ("application/openmetrics-text", .openMetrics),
      ("application/openmetrics-text; version=1.0.0; charset=utf-8", .openMetrics),
      ("application/openmetrics-text;version=2.0.0", .prometheus),
      ("application/openmetrics-text;q=0", .prometheus),
      ("application/openmetrics-text;q=0.2,text/plain;q=0.3", .prometheus),
      ("text/plain;version=0.0.4;q=0.3, Application/OpenMetrics-Text;q=0.3", .openMetrics),
      ("application/openmetrics-text;q=many", .prometheus), (";;;,,,q=", .prometheus),
      (
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
          + "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", .openMetrics
      ),
    ] as [(String?, MetricFormat)])
  func accept(_ header: String?, _ format: MetricFormat) {
    #expect(MetricFormat(accept: header) == format)
  }
}

@Suite("Histograms of durations")
struct DurationCountsTests {
  @Test(
    "A histogram counts a duration at the first bound that the duration does not exceed",
    arguments: [
      (-5, 0), (0, 0), (1_000, 0), (1_001, 1), (4_000, 1), (4_001, 2), (4_194_304_000, 11),
      (4_194_304_001, 12), (.max, 12),
    ] as [(Int64, Int)])
  func place(_ time: Int64, _ place: Int) {
    var durations = DurationCounts()
    durations.add(nanoseconds: time)
    #expect(durations.counts.firstIndex(of: 1) == place && durations.count == 1)
    #expect(durations.total == UInt64(max(0, time)))
  }

  @Test("A histogram has one more count than it has bounds")
  func bounds() {
    #expect(DurationCounts.bounds.first == 1_000 && DurationCounts.bounds.last == 4_194_304_000)
    #expect(DurationCounts.bounds.count + 1 == DurationCounts().counts.count)
    #expect(DurationCounts().isComplete)
  }
}
