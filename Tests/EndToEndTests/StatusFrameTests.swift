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
    var expectedError: StatusError
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
      expectedError: .missingKey("ins")),
    Case(
      testDescription: "a key of a pipe is missing",
      body: body("outs", [["name": "out", "events": 1, "applied": 1, "capacity": 9]]),
      expectedError: .missingKey("outs[0].waiting")),
    Case(
      testDescription: "a value has the wrong type", body: body("events", "many"),
      expectedError: .wrongValue(of: "events")),
    Case(
      testDescription: "a value is null", body: body("gaps", .null),
      expectedError: .wrongValue(of: "gaps")),
    Case(
      testDescription: "the status is a list", body: "[]", expectedError: .unreadable),
    Case(
      testDescription: "the status is not JSON", body: "state: open",
      expectedError: .unreadable),
    Case(testDescription: "the status is empty", body: "", expectedError: .unreadable),
  ]

  @Test(
    "An invalid status is shown in the node's row and logged once per process, with a remedy",
    arguments: cases)
  func expectedError(_ status: Case) async throws {
    let node = try await ForeignNode()
    defer { node.end() }
    func output() -> String { node.run.outputText + node.run.errorText }
    let error = "\(status.expectedError)"

    #expect(
      try await node.exchangeFrames(status: Array(status.body.utf8)) {
        node.answers >= 4 && output().contains("1 node running")
      }, "\(output())")
    let line = try #require(
      output().split(separator: "\n").first { $0.contains(error) }, "\(output())")
    #expect(line == "gate: \(error)")
    let ps = try await node.tool.run("ps")
    #expect(ps.output.contains(error.prefix(16)), "\(ps)")
    let page = try await node.tool.run("status")
    #expect(page.output.contains(error), "\(page)")
    let log = try await node.tool.run("logs", "gate").output
    #expect(log.split(separator: "\n").count { $0.contains(error) } == 1, "\(log)")

    // A valid status is shown again.
    #expect(
      try await node.exchangeFrames(status: Array(JSONValue.object(Self.good).text.utf8)) {
        output().contains("\ngate: open(passed: 8)")
      }, "\(output())")
    #expect(
      output().split(separator: "\n").count { $0.contains(error) } == 1,
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
