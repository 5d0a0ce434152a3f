import PipeRuntimeTestKit
import Testing

/// A trait that ends a test when neither its process nor the processes that it has started make progress.
///
/// Unlike a time limit, it does not depend on the speed of the host.
public struct StallLimit: SuiteTrait, TestTrait, TestScoping {
  let limit: Duration

  /// Whether a suite applies the trait to its tests. Always `true`.
  public var isRecursive: Bool { true }

  /// Runs one test, and cancels it if it stalls.
  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    guard testCase != nil else { return try await function() }
    // The task lives until this function returns, and any thread may cancel it until then.
    nonisolated(unsafe) let task = withUnsafeCurrentTask { $0 }
    // An unstructured task inherits the task-local values, so that the issue belongs to this test.
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
  /// Ends a test that makes no progress for this duration.
  public static func stallLimit(_ limit: Duration) -> StallLimit { StallLimit(limit: limit) }
}
