import PipeRuntime

#if canImport(Testing)
  import Testing
#endif
#if canImport(XCTest)
  import XCTest
#endif

/// The location of an assertion in a test's source.
package struct AssertionLocation: Sendable {
  package var fileID: String
  package var filePath: StaticString
  package var line: UInt
  package var column: UInt
}

/// Reports failures to the test library that runs the current test.
package enum FailureReporter {
  /// The failures that one call of ``capture(_:)`` collects.
  private final class Log: Sendable {
    let failures = Locked<[String]>([])
  }

  @TaskLocal private static var log: Log?

  /// Records a failure of the current test.
  package static func fail(_ text: String, at callSite: AssertionLocation) {
    if let log {
      log.failures.withLock { $0.append(text) }
      return
    }
    #if canImport(Testing)
      let location = SourceLocation(
        fileID: callSite.fileID, filePath: "\(callSite.filePath)", line: Int(callSite.line),
        column: Int(callSite.column))
      Issue.record(Comment(rawValue: text), sourceLocation: location)
      if Test.current != nil { return }
    #endif
    // The test library to which this task belongs is unknown, so the failure is reported to both
    // libraries. A library that runs no test ignores the report.
    #if canImport(XCTest)
      XCTFail(text, file: callSite.filePath, line: callSite.line)
    #endif
  }

  /// Whether ``end(with:at:)`` returns the failure without reporting it. Callers that expect a
  /// failure set this flag.
  @TaskLocal package static var areFailuresThrown = false

  /// Reports the failure that ends the current test, at a location in the test's source.
  /// - Returns: The error to throw. In a test of Swift Testing, the failure is already reported,
  ///   and Swift Testing ignores the error, as it ignores the error of a failed `#require`. In
  ///   other tests, the error contains the location.
  package static func end(
    with failure: TopologyExpectationFailure, at callSite: AssertionLocation?
  ) -> any Error {
    guard let callSite else { return failure }
    #if canImport(Testing)
      if Test.current != nil, !areFailuresThrown {
        let location = SourceLocation(
          fileID: callSite.fileID, filePath: "\(callSite.filePath)", line: Int(callSite.line),
          column: Int(callSite.column))
        let isAsExpected = false
        do {
          try #require(isAsExpected, Comment(rawValue: "\(failure)"), sourceLocation: location)
        } catch {
          return error
        }
      }
    #endif
    var failure = failure
    failure.location = "\(callSite.filePath):\(callSite.line):\(callSite.column)"
    return failure
  }

  /// Returns the failures that the body reports. These failures do not fail the test.
  package static func capture(_ body: () throws -> Void) rethrows -> [String] {
    let log = Log()
    try $log.withValue(log) { try body() }
    return log.failures.withLock { $0 }
  }

  /// Returns the failures that the body reports. These failures do not fail the test.
  package static func capture(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Void
  ) async rethrows -> [String] {
    let log = Log()
    try await $log.withValue(log) { try await body() }
    return log.failures.withLock { $0 }
  }
}
