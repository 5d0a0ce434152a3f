import PipeRuntimeTestKit
import Testing

/// Ends a test in which nothing moves any more: neither its process nor those that it has started.
///
/// Unlike a limit on its time, it says nothing of how fast the machine is.
public struct StallLimit: SuiteTrait, TestTrait, TestScoping {
  let limit: Duration

  /// Suites hand it on to their tests.
  public var isRecursive: Bool { true }

  /// Runs one test, and cancels it where it stalls.
  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    guard testCase != nil else { return try await function() }
    // It lives until this function returns, and anybody may cancel it until then.
    nonisolated(unsafe) let task = withUnsafeCurrentTask { $0 }
    // With what tells which test it is of.
    let watcher = Task {
      guard let stall = try await stallDescription(after: limit) else { return }
      Issue.record("the test has stalled: \(stall)", sourceLocation: test.sourceLocation)
      task?.cancel()
    }
    defer { watcher.cancel() }
    try await function()
  }
}

extension Trait where Self == StallLimit {
  /// The test ends once nothing has moved in it for so long.
  public static func stallLimit(_ limit: Duration) -> StallLimit { StallLimit(limit: limit) }
}
