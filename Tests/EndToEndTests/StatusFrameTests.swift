import FoundationEssentials
import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("A node's invalid status", .timed)
struct StatusFrameTests {
  /// A status frame and the expected error.
  struct Case: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var body: String
    var expectedError: String
  }

  static let good: [String: JSONValue] = {
    var status = NodeStatus()
    status.state = ["open": ["passed": 8]]
    guard case .object(let members)? = try? JSONValue(encoding: status) else { return [:] }
    return members
  }()

  private static func body(_ key: String, _ value: JSONValue?) -> String {
    var members = good
    members[key] = value
    return JSONValue.object(members).text
  }

  private static let cases = [
    Case(
      testDescription: "a key is missing", body: body("ins", nil),
      expectedError: "lacks the key 'ins'"),
    Case(
      testDescription: "a key of a pipe is missing",
      body: body("outs", [["name": "out", "events": 1, "applied": 1, "capacity": 9]]),
      expectedError: "lacks the key 'outs[0].waiting'"),
    Case(
      testDescription: "a value is of another kind", body: body("events", "many"),
      expectedError: "has an invalid value for the key 'events'"),
    Case(
      testDescription: "no value", body: body("gaps", .null),
      expectedError: "has an invalid value for the key 'gaps'"),
    Case(testDescription: "a list", body: "[]", expectedError: "is not a JSON object"),
    Case(testDescription: "no JSON", body: "state: open", expectedError: "is not a JSON object"),
    Case(testDescription: "nothing", body: "", expectedError: "is not a JSON object"),
  ]

  @Test(
    "An invalid status is shown in the node's row and logged once per process, with what to do",
    arguments: cases)
  func expectedError(_ status: Case) async throws {
    let node = try await ForeignNode()
    defer { node.end() }
    func output() -> String { node.run.outputText + node.run.errorText }

    #expect(
      try await node.exchangeFrames(status: Array(status.body.utf8)) {
        node.answers >= 4 && output().contains("1 node running")
      }, "\(output())")
    let line = try #require(
      output().split(separator: "\n").first { $0.contains(status.expectedError) }, "\(output())")
    #expect(line.hasPrefix("gate: the node's status \(status.expectedError)"))
    #expect(line.contains("rebuild the node's program with the same version of PipeRuntime"))
    let ps = try await node.tool.run("ps")
    #expect(ps.output.contains("the node's status "), "\(ps)")
    let page = try await node.tool.run("status")
    #expect(page.output.contains("the node's status \(status.expectedError)"), "\(page)")
    let log = try await node.tool.run("logs", "gate").output
    #expect(log.split(separator: "\n").count { $0.contains(status.expectedError) } == 1, "\(log)")

    // A valid status is shown again.
    #expect(
      try await node.exchangeFrames(status: Array(JSONValue.object(Self.good).text.utf8)) {
        output().contains("\ngate: open(passed: 8)")
      }, "\(output())")
    #expect(
      output().split(separator: "\n").count { $0.contains(status.expectedError) } == 1,
      "\(output())")
  }

  @Test("'monitor --steps' names a node that takes steps without reporting them")
  func silentSteps() async throws {
    let node = try await ForeignNode()
    defer { node.end() }
    func status(_ version: Int64) -> [UInt8] { Array(Self.body("version", .integer(version)).utf8) }
    let isRunning = try await node.exchangeFrames(status: status(1)) {
      node.starts > 0 && node.answers > 1
    }
    try #require(isRunning)
    let monitor = try node.tool.start(["monitor", "--steps", "gate"])
    var version: Int64 = 1
    var isNamed = false
    for _ in 0..<200 where !isNamed {
      version += 1
      let answers = node.answers
      _ = try await node.exchangeFrames(status: status(version)) {
        isNamed = monitor.errorText.contains("node 'gate' reports no steps")
        return isNamed || node.answers > answers + 1
      }
    }
    #expect(isNamed, "\(monitor.errorText)")
    _ = monitor.signal(Signal(number: SIGKILL))
  }
}
