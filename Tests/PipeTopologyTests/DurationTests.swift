import PipeMachines
import PipeSupport
import Testing

@Suite("Durations as text")
struct DurationTests {
  @Test(
    "The short text of a duration has at most two units",
    arguments: [
      (Duration.zero, "0 ms"), (.milliseconds(250), "250 ms"), (.milliseconds(1540), "1.5 s"),
      (.seconds(10), "10 s"), (.seconds(200), "3 min 20 s"), (.seconds(7500), "2 h 5 min"),
      (.seconds(180_000), "2 d 2 h"), (.milliseconds(-1500), "-1.5 s"),
    ])
  func text(duration: Duration, text: String) {
    #expect(duration.shortText == text)
  }

  static let typed: [(text: String, duration: Duration?)] = [
    ("200ms", .milliseconds(200)), ("60s", .seconds(60)), ("1m30s", .seconds(90)),
    ("2min", .seconds(120)), ("2h", .seconds(7200)), ("1h0m1s", .seconds(3601)),
    ("1d2h", .seconds(93_600)), ("5us", .microseconds(5)), ("1.5s", .milliseconds(1500)),
    ("1.5h30.25s", .milliseconds(5_430_250)), ("0.000000001s", .nanoseconds(1)),
    ("1234567s", .seconds(1_234_567)), ("1000000h", .seconds(3_600_000_000)), ("0s", .zero),
    ("60", nil), ("", nil), ("s", nil), ("1s1m", nil), ("1s1s", nil), ("1m1min", nil),
    ("-1s", nil), ("+1s", nil), (".5s", nil), ("1.s", nil), ("1.2.3s", nil), ("1,5s", nil),
    ("1 s", nil), ("1S", nil), ("1e3s", nil), ("1234567890s", nil), ("١s", nil),
  ]
  /// Durations that match the pattern and are refused because of their value.
  static let refusedByValue = ["1000001h", "999999999d", "0.5ns", "0.0000000015s"]

  @Test("A duration is parsed from text, and is unchanged by writing and parsing", arguments: typed)
  func grammar(text: String, expected: Duration?) {
    #expect(DurationText.parse(text) == expected)
    if let expected {
      #expect(DurationText.parse(DurationText.write(expected)) == expected)
    }
  }

  @Test(
    "A duration with fractions of a nanosecond, or beyond the limit, is refused",
    arguments: refusedByValue)
  func limits(text: String) {
    #expect(DurationText.parse(text) == nil)
  }

  @Test("The schema accepts exactly the durations that the reader accepts", arguments: typed)
  func schema(text: String, expected: Duration?) {
    let file: JSONValue = [
      "topology": "t",
      "nodes": ["a": ["machine": "M", "restart": ["backoff": ["max": .string(text)]]]],
    ]
    #expect(TopologySchemaTests.schema.accepts(file) == (expected != nil))
  }

  @Test("An invalid duration causes an error with the reason")
  func problem() {
    #expect("\(DurationText.ParseFailure(with: "1.5"))" == "has no unit; write 1.5s, 1.5ms or 1.5m")
    #expect("\(DurationText.ParseFailure(with: "soon"))".hasPrefix("must be a duration such as"))
  }
}
