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
  /// The failures caught by ``capture(_:)``.
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
    // A task that does not belong to a known test reports to both libraries. The library that runs
    // no test ignores the report.
    #if canImport(XCTest)
      XCTFail(text, file: callSite.filePath, line: callSite.line)
    #endif
  }

  /// Whether ``end(with:at:)`` only returns the failure and does not report it, because the caller
  /// expects the failure.
  @TaskLocal package static var areFailuresThrown = false

  /// Reports the failure that ends the current test, at a location in the test's source.
  /// - Returns: The error to throw. Swift Testing has already reported the failure, so it ignores
  ///   the error, as it ignores the error of a failed `#require`. Outside Swift Testing, the error
  ///   contains the location.
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

  /// Returns the failures that the body would have recorded. They do not fail the test.
  package static func capture(_ body: () throws -> Void) rethrows -> [String] {
    let log = Log()
    try $log.withValue(log) { try body() }
    return log.failures.withLock { $0 }
  }

  /// Returns the failures that the body would have recorded. They do not fail the test.
  package static func capture(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Void
  ) async rethrows -> [String] {
    let log = Log()
    try await $log.withValue(log) { try await body() }
    return log.failures.withLock { $0 }
  }
}
