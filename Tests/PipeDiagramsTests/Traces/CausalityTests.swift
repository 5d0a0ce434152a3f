import PipeMachines
import PipeDiagrams
import PipeWire
import Testing

/// A step report as a row of a table.
struct ReportedRow: Sendable {
  var node = "a"
  var incarnation = 1
  var version = 1
  var time = 0
  /// The pipe's event that caused the step, as `PIPE STREAM NUMBER`. `sent` has the events that the
  /// step sent.
  var took: String?
  var sent: [String] = []
  /// The version whose effect produced the event.
  var effect: Int?
  var transaction: String?

  var step: NodeStep {
    get throws {
      var record: [String: JSONValue] = [
        "node": .string(node), "incarnation": .integer(Int64(incarnation)),
        "version": .integer(Int64(version)), "index": .integer(Int64(version)),
        "time": .integer(Int64(time)), "event": "go",
      ]
      record["source"] = took.map(Self.piped)
      if !sent.isEmpty { record["sent"] = .array(sent.map(Self.piped)) }
      record["effect"] = effect.map { .integer(Int64($0)) }
      record["transaction"] = transaction.map { .string($0) }
      return try JSONRecord.decode(NodeStep.self, from: JSONValue.object(record).bytes)
    }
  }

  private static func piped(_ text: String) -> JSONValue {
    let words = text.split(separator: " ").map(String.init)
    return [
      "pipe": .string(words[0]), "stream": .integer(Int64(words[1]) ?? 0),
      "number": .integer(Int64(words[2]) ?? 0),
    ]
  }
}

@Suite("The causes of steps")
struct CausalityTests {
  struct Row: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// The steps, in the order of their times.
    var steps: [ReportedRow]
    /// For each step, the index of the step that caused it.
    var causes: [Int?]
  }

  static let rows = [
    Row(
      testDescription: "the sender of the event",
      steps: [.init(sent: ["p 1 7"]), .init(node: "b", time: 1, took: "p 1 7")], causes: [nil, 0]),
    Row(
      testDescription: "no sender of another number, pipe or stream",
      steps: [
        .init(sent: ["p 1 7", "q 1 8", "p 2 8"]), .init(node: "b", time: 1, took: "p 1 8"),
      ], causes: [nil, nil]),
    Row(
      testDescription: "a step that sends several events to several nodes",
      steps: [
        .init(sent: ["p 1 7", "p 1 8", "q 1 7"]), .init(node: "b", time: 1, took: "p 1 7"),
        .init(node: "c", time: 2, took: "q 1 7"),
        .init(node: "b", version: 2, time: 3, took: "p 1 8"),
      ], causes: [nil, 0, 0, 0]),
    Row(
      testDescription: "a cause whose clock is ahead",
      steps: [.init(node: "b", took: "p 1 7"), .init(time: 1, sent: ["p 1 7"])], causes: [1, nil]),
    Row(
      testDescription: "a node that sends to itself",
      steps: [.init(sent: ["p 1 7"]), .init(version: 2, time: 1, took: "p 1 7")], causes: [nil, 0]),
    Row(
      testDescription: "the node of the effect, and no other node of the same version",
      steps: [
        .init(version: 4), .init(node: "b", version: 4, time: 1),
        .init(version: 5, time: 2, effect: 4), .init(node: "b", version: 9, time: 3, effect: 8),
      ], causes: [nil, nil, 0, nil]),
    Row(
      testDescription: "an effect that a later process completes",
      steps: [.init(version: 4), .init(incarnation: 2, version: 5, time: 1, effect: 4)],
      causes: [nil, 0]),
    Row(
      testDescription: "the latest of two processes' steps with the effect's version",
      steps: [
        .init(version: 4), .init(incarnation: 2, version: 4, time: 1),
        .init(incarnation: 2, version: 5, time: 2, effect: 4),
      ], causes: [nil, nil, 1]),
    Row(
      testDescription: "the sender of a pipe's event, and not an effect",
      steps: [
        .init(sent: ["p 1 7"]), .init(node: "b", version: 4, time: 1),
        .init(node: "b", version: 5, time: 2, took: "p 1 7", effect: 4),
      ], causes: [nil, nil, 0]),
    Row(
      testDescription: "a synchronized event that an effect requested",
      steps: [
        .init(version: 4), .init(version: 5, time: 1, effect: 4, transaction: "3.1"),
        .init(node: "b", version: 1, time: 2, transaction: "3.1"),
      ], causes: [nil, 0, nil]),
    Row(
      testDescription: "no cause if the sender's steps are not reported",
      steps: [.init(node: "b", took: "p 1 7"), .init(node: "b", version: 2, time: 1)],
      causes: [nil, nil]),
  ]

  @Test(
    "The cause of a step is found even if reports come in another order or with wrong times",
    arguments: rows)
  func causes(row: Row) throws {
    for steps in [row.steps, row.steps.reversed()] {
      var recorder = TraceRecorder(topology: "t", nodes: ["a", "b", "c"])
      for step in steps { recorder.take(try step.step) }
      #expect(recorder.trace.steps.map(\.causeIndex) == row.causes)
    }
  }
}
