import PipeRuntime
import PipeRuntimeTestKit
import XCTest

/// Tests of the assertions under XCTest.
final class XCTStateMachineXCTests: XCTestCase {
  private var failures: [String]?

  // XCTest on Linux has no way to expect a failure.
  override func recordFailure(
    withDescription description: String, inFile filePath: String, atLine lineNumber: Int,
    expected: Bool
  ) {
    guard failures == nil else {
      let file = filePath.split(separator: "/").last ?? ""
      failures?.append("\(file):\(lineNumber): \(description.split(separator: "\n")[0])")
      return
    }
    super.recordFailure(
      withDescription: description, inFile: filePath, atLine: lineNumber, expected: expected)
  }

  func testTheGuidesExampleHolds() {
    XCTStateMachine(makeElevator())
      .assertNoOutput(when: .open(persons: 0))
      .assertNoTransition(when: .open(persons: 15), on: .closeButtonWasPressed)
  }

  func testAFailureIsRecordedOnceAtTheAssertionsLine() {
    failures = []
    let line = #line + 1
    XCTStateMachine(makeElevator()).assertNoOutput(when: .closing(persons: 1))
    XCTAssertEqual(
      failures,
      ["XCTestTests.swift:\(line): failed - when closing(persons: 1): there is an output"])
    failures = nil
  }
}
