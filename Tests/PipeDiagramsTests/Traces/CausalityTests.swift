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
  /// The event of a pipe that the step took, as `PIPE STREAM NUMBER`, and the events that it sent.
  var took: String?
  var sent: [String] = []
  /// The version whose effect gave the event.
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
      testDescription: "who has sent the event",
      steps: [.init(sent: ["p 1 7"]), .init(node: "b", time: 1, took: "p 1 7")], causes: [nil, 0]),
    Row(
      testDescription: "not who has sent another number, by another pipe, or in another stream",
      steps: [
        .init(sent: ["p 1 7", "q 1 8", "p 2 8"]), .init(node: "b", time: 1, took: "p 1 8"),
      ], causes: [nil, nil]),
    Row(
      testDescription: "one step sends to several, and several times",
      steps: [
        .init(sent: ["p 1 7", "p 1 8", "q 1 7"]), .init(node: "b", time: 1, took: "p 1 7"),
        .init(node: "c", time: 2, took: "q 1 7"),
        .init(node: "b", version: 2, time: 3, took: "p 1 8"),
      ], causes: [nil, 0, 0, 0]),
    Row(
      testDescription: "a cause whose clock is ahead",
      steps: [.init(node: "b", took: "p 1 7"), .init(time: 1, sent: ["p 1 7"])], causes: [1, nil]),
    Row(
      testDescription: "a node may send to itself",
      steps: [.init(sent: ["p 1 7"]), .init(version: 2, time: 1, took: "p 1 7")], causes: [nil, 0]),
    Row(
      testDescription: "who has started the effect: that node, and no other of the same version",
      steps: [
        .init(version: 4), .init(node: "b", version: 4, time: 1),
        .init(version: 5, time: 2, effect: 4), .init(node: "b", version: 9, time: 3, effect: 8),
      ], causes: [nil, nil, 0, nil]),
    Row(
      testDescription: "an effect that a later process has ended",
      steps: [.init(version: 4), .init(incarnation: 2, version: 5, time: 1, effect: 4)],
      causes: [nil, 0]),
    Row(
      testDescription: "of two processes that count from one, the last step of the version before",
      steps: [
        .init(version: 4), .init(incarnation: 2, version: 4, time: 1),
        .init(incarnation: 2, version: 5, time: 2, effect: 4),
      ], causes: [nil, nil, 1]),
    Row(
      testDescription: "a pipe's event has no other cause, whatever the effects",
      steps: [
        .init(sent: ["p 1 7"]), .init(node: "b", version: 4, time: 1),
        .init(node: "b", version: 5, time: 2, took: "p 1 7", effect: 4),
      ], causes: [nil, nil, 0]),
    Row(
      testDescription: "a synchronized event that an effect has asked for",
      steps: [
        .init(version: 4), .init(version: 5, time: 1, effect: 4, transaction: "3.1"),
        .init(node: "b", version: 1, time: 2, transaction: "3.1"),
      ], causes: [nil, 0, nil]),
    Row(
      testDescription: "nothing that was not followed",
      steps: [.init(node: "b", took: "p 1 7"), .init(node: "b", version: 2, time: 1)],
      causes: [nil, nil]),
  ]

  @Test(
    "Causes are found by names and numbers, not by times, and in any order of reports",
    arguments: rows)
  func causes(row: Row) throws {
    for steps in [row.steps, row.steps.reversed()] {
      var recorder = TraceRecorder(topology: "t", nodes: ["a", "b", "c"])
      for step in steps { recorder.take(try step.step) }
      #expect(recorder.trace.steps.map(\.cause) == row.causes)
    }
  }
}
