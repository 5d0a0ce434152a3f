import Glibc
import Testing

/// Notes how long each test takes, without the wait for its turn, in the file that
/// `PIPERUNTIME_TEST_TIMES` names: seconds, a tab, and the test's name.
///
/// The event stream of Swift Testing tells the begin of cases only where a test has arguments.
public struct Timed: SuiteTrait, TestTrait, TestScoping {
  /// Suites hand it on to their tests.
  public var isRecursive: Bool { true }

  /// Runs one case of a test, and notes its time.
  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    guard testCase != nil, let path = getenv("PIPERUNTIME_TEST_TIMES") else {
      return try await function()
    }
    let start = ContinuousClock.now
    defer { note(test, start.duration(to: .now), at: path) }
    try await function()
  }

  private func note(_ test: Test, _ time: Duration, at path: UnsafePointer<CChar>) {
    // Lines of several tests at a time are whole: the file is opened for appending.
    guard let file = fopen(path, "a") else { return }
    let name = test.displayName ?? test.name
    fputs("\(time / .seconds(1))\t\(name)\n", file)
    fclose(file)
  }
}

extension Trait where Self == Timed {
  /// How long each test takes is noted.
  public static var timed: Self { Timed() }
}
