import Glibc
import Testing

/// A trait that records how long each test takes, without the wait for its turn.
///
/// The environment variable `PIPERUNTIME_TEST_TIMES` names the file. Each line has the seconds, a tab,
/// and the test's name. The event stream of Swift Testing reports the start of a case only if the test
/// has arguments.
public struct Timed: SuiteTrait, TestTrait, TestScoping {
  /// Whether a suite applies the trait to its tests. Always `true`.
  public var isRecursive: Bool { true }

  /// Runs one case of a test, and records its duration.
  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    guard testCase != nil, let path = getenv("PIPERUNTIME_TEST_TIMES") else {
      return try await function()
    }
    let start = ContinuousClock.now
    defer { record(test, start.duration(to: .now), at: path) }
    try await function()
  }

  private func record(_ test: Test, _ time: Duration, at path: UnsafePointer<CChar>) {
    // Opened for appending, so that lines of concurrent tests do not mix.
    guard let file = fopen(path, "a") else { return }
    let name = test.displayName ?? test.name
    fputs("\(time / .seconds(1))\t\(name)\n", file)
    fclose(file)
  }
}

extension Trait where Self == Timed {
  /// Records how long each test takes.
  public static var timed: Self { Timed() }
}
