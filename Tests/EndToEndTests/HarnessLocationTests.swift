import Foundation
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing
import XCTest

private let button = """
  topology: button
  program: TestNodes
  nodes: { button: { machine: Button } }
  """
/// The environment variable that enables the failing tests.
private let variable = "PIPERUNTIME_FAILING_TEST"
private let isWanted = ProcessEnvironment.current[variable] != nil

@Suite("The reported location of a failed harness call", .timed)
struct HarnessLocationTests {
  /// Runs failing tests in a child process that executes this test binary.
  private func run(_ arguments: String...) async throws -> String {
    let program = try #require(FileSystem.resolvedPath("/proc/self/exe"))
    let environment = ProcessEnvironment.current.merging([variable: "1"]) { _, own in own }
    let test = try LaunchedProgram(
      program, arguments, environment: environment)
    _ = try await test.waitForExit(within: .seconds(60))
    #expect(test.exit != .exited(code: 0))
    return test.outputText + test.errorText
  }

  /// Returns the line of this file below the marker comment of a failing test.
  private func line(of test: String) throws -> Int {
    let lines = try String(contentsOfFile: #filePath, encoding: .utf8).split(
      separator: "\n", omittingEmptySubsequences: false)
    return try #require(lines.firstIndex { $0.hasSuffix("// \(test) fails") }) + 2
  }

  @Test(
    "Swift Testing reports a failed harness call once, at the line of the call",
    arguments: FailingTests.Call.allCases)
  func swiftTesting(call: FailingTests.Call) async throws {
    let report = try await run(
      "--testing-library", "swift-testing", "--filter", "EndToEndTests.FailingTests/\(call)\\(")
    let issues = report.split(separator: "\n").filter { $0.contains(" recorded an issue at ") }
    #expect(issues.count == 1, "\(report)")
    let place = "HarnessLocationTests.swift:\(try line(of: "\(call)")):"
    #expect(issues.first?.contains(" recorded an issue at \(place)") == true, "\(report)")
    #expect(report.contains(call.message) && report.contains("log of 'button':"), "\(report)")
  }

  @Test("In a test library other than Swift Testing, the thrown error names the line of the call")
  func xcTest() async throws {
    let report = try await run("EndToEndTests.FailingXCTests")
    let place = "\(#filePath):\(try line(of: "other library")):"
    let error = report.split(separator: "\n").filter { $0.contains("threw error") }
    #expect(error.count == 1, "\(report)")
    #expect(error.first?.contains(place) == true, "\(report)")
    #expect(report.contains("node 'button' was not pressed(times: 3)"), "\(report)")
  }
}

/// Failing tests, which ``HarnessLocationTests`` runs.
@Suite("Tests that fail only when another test runs them")
struct FailingTests {
  enum Call: String, CaseIterable, Sendable {
    case state, predicate, event, kill, afterCaughtFailure

    var message: String {
      switch self {
      case .state, .afterCaughtFailure: "node 'button' was not pressed(times: 3)"
      case .predicate: "node 'button' was not pressed often"
      case .event, .kill: "'buton'"
      }
    }
  }

  @Test func state() async throws {
    guard isWanted else { return }
    try await withTopology(yaml: button) { topology in
      // state fails
      try await topology.expect("button", Button.State.pressed(times: 3), within: .zero)
    }
  }

  @Test func predicate() async throws {
    guard isWanted else { return }
    try await withTopology(yaml: button) { topology in
      // predicate fails
      try await topology.expect("button", "pressed often", within: .zero) {
        $0 == Button.State.pressed(times: 3)
      }
    }
  }

  @Test func event() async throws {
    guard isWanted else { return }
    try await withTopology(yaml: button) { topology in
      try await topology.expect("button", is: "pressed")
      // event fails
      try await topology.send("buton", Button.Event.press)
    }
  }

  @Test func kill() async throws {
    guard isWanted else { return }
    try await withTopology(yaml: button) { topology in
      // kill fails
      try await topology.kill("buton")
    }
  }

  @Test func afterCaughtFailure() async throws {
    guard isWanted else { return }
    try await withTopology(yaml: button) { topology in
      await #expect(throws: TopologyExpectationFailure.self) {
        try await topology.expect("button", is: "released", within: .zero)
      }
      // afterCaughtFailure fails
      try await topology.expect("button", Button.State.pressed(times: 3), within: .zero)
    }
  }
}

/// A failing test, which ``HarnessLocationTests`` runs.
final class FailingXCTests: XCTestCase {
  func testFails() async throws {
    guard isWanted else { return }
    try await withTopology(yaml: button) { topology in
      // other library fails
      try await topology.expect("button", Button.State.pressed(times: 3), within: .zero)
    }
  }
}
