import PipeRuntime

#if canImport(Testing)
  import Testing
#endif
#if canImport(XCTest)
  import XCTest
#endif

/// Where in a test's source an assertion stands.
package struct SourcePlace: Sendable {
  package var fileID: String
  package var filePath: StaticString
  package var line: UInt
  package var column: UInt
}

/// Tells the test library that runs the current test of a failure.
package enum FailureReporter {
  /// Failures caught by ``capture(_:)``.
  private final class Log: Sendable {
    let failures = Locked<[String]>([])
  }

  @TaskLocal private static var log: Log?

  /// Records a failure of the current test.
  package static func fail(_ text: String, at place: SourcePlace) {
    if let log {
      log.failures.withLock { $0.append(text) }
      return
    }
    #if canImport(Testing)
      let location = SourceLocation(
        fileID: place.fileID, filePath: "\(place.filePath)", line: Int(place.line),
        column: Int(place.column))
      Issue.record(Comment(rawValue: text), sourceLocation: location)
      if Test.current != nil { return }
    #endif
    // In a task that does not know its test, both libraries are told: the one that runs no test
    // does not care.
    #if canImport(XCTest)
      XCTFail(text, file: place.filePath, line: place.line)
    #endif
  }

  /// Whether ``end(with:at:)`` leaves the failure to the caller, who expects it.
  @TaskLocal package static var areFailuresThrown = false

  /// Ends the current test at a place of its source.
  /// - Returns: The error to throw. Swift Testing reports a failure at the place, and ignores the error, since it is
  ///   that of a failed `#require`. Where no test of it runs, the error says the place itself.
  package static func end(
    with failure: TopologyExpectationFailure, at place: SourcePlace?
  ) -> any Error {
    guard let place else { return failure }
    #if canImport(Testing)
      if Test.current != nil, !areFailuresThrown {
        let location = SourceLocation(
          fileID: place.fileID, filePath: "\(place.filePath)", line: Int(place.line),
          column: Int(place.column))
        let isAsExpected = false
        do {
          try #require(isAsExpected, Comment(rawValue: "\(failure)"), sourceLocation: location)
        } catch {
          return error
        }
      }
    #endif
    var failure = failure
    failure.location = "\(place.filePath):\(place.line):\(place.column)"
    return failure
  }

  /// The failures that the body would have recorded; they do not fail the test.
  package static func capture(_ body: () throws -> Void) rethrows -> [String] {
    let log = Log()
    try $log.withValue(log) { try body() }
    return log.failures.withLock { $0 }
  }

  /// The failures that the body would have recorded; they do not fail the test.
  package static func capture(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Void
  ) async rethrows -> [String] {
    let log = Log()
    try await $log.withValue(log) { try await body() }
    return log.failures.withLock { $0 }
  }
}
