import PipeRuntime

/// The result of a wait.
enum WaitResult<Value> {
  case found(Value)
  /// The wait ended because there was no progress.
  case stalled(Stall)

  /// The value; `nil` if the wait stalled before it found a value.
  var value: Value? {
    if case .found(let value) = self { value } else { nil }
  }

  /// The stall that ended the wait; `nil` if the wait found a value.
  var stall: Stall? {
    if case .stalled(let stall) = self { stall } else { nil }
  }
}

extension WaitResult: Sendable where Value: Sendable {}

/// Calls `attempt` repeatedly, until `attempt` returns an answer, or until there is no progress for
/// `limit`.
/// - Parameters:
///   - limit: The maximum time without progress. Time in which this process or a process of the
///     directory computes, or waits for a processor or a disk, does not count. So a wait does not
///     fail because the host is busy.
///   - directory: The test directory whose processes are watched; `nil` means the directories of
///     all tests in this process.
func pollUntilStalled<Answer>(
  every pause: Duration = .milliseconds(2), within limit: Duration,
  of directory: TestDirectory? = nil, isolation: isolated (any Actor)? = #isolation,
  _ attempt: () async throws -> Answer?
) async throws -> WaitResult<Answer> {
  var detector = StallDetector(limit: limit, directory: directory)
  while true {
    let stall = detector.check()
    // Makes one more attempt after the limit: the answer may have been available in time, and only
    // the attempts were too slow.
    if let answer = try await attempt() { return .found(answer) }
    if let stall { return .stalled(stall) }
    try await Task.sleep(for: pause)
  }
}

/// Calls `attempt` repeatedly, like ``pollUntilStalled(every:within:of:isolation:_:)``. If there is
/// no answer, writes the reason to standard error and returns `nil`. For tests that handle a
/// missing answer themselves.
package func poll<Answer>(
  every pause: Duration = .milliseconds(2), within limit: Duration,
  of directory: TestDirectory? = nil, isolation: isolated (any Actor)? = #isolation,
  fileID: String = #fileID, line: UInt = #line, _ attempt: () async throws -> Answer?
) async throws -> Answer? {
  switch try await pollUntilStalled(every: pause, within: limit, of: directory, attempt) {
  case .found(let answer): return answer
  case .stalled(let stall):
    StandardError.write("\(fileID):\(line): gave up waiting: \(stall)\n")
    return nil
  }
}

/// Runs an operation, and cancels it if there is no progress for `limit`. The operation must end
/// soon after it is cancelled.
func withStallLimit<Value: Sendable>(
  _ limit: Duration, of directory: TestDirectory? = nil,
  _ operation: @escaping @Sendable () async throws -> Value
) async throws -> WaitResult<Value> {
  try await withThrowingTaskGroup(of: WaitResult<Value>.self) { group in
    group.addTask { .found(try await operation()) }
    group.addTask {
      var detector = StallDetector(limit: limit, directory: directory)
      while true {
        if let stall = detector.check() { return .stalled(stall) }
        try await Task.sleep(for: min(limit, StallDetector.samplingInterval))
      }
    }
    defer { group.cancelAll() }
    guard let first = try await group.next() else { throw CancellationError() }
    return first
  }
}

/// Runs an operation. Returns `nil` if there is no progress for `limit`. For tests that handle a
/// missing result themselves.
package func unlessStalled<Value: Sendable>(
  for limit: Duration, fileID: String = #fileID, line: UInt = #line,
  _ operation: @escaping @Sendable () async throws -> Value
) async throws -> Value? {
  switch try await withStallLimit(limit, operation) {
  case .found(let value): return value
  case .stalled(let stall):
    StandardError.write("\(fileID):\(line): gave up waiting: \(stall)\n")
    return nil
  }
}

/// Waits until there is no progress for `limit`, and returns a description of the stall.
package func stallDescription(after limit: Duration) async throws -> String? {
  try await withStallLimit(limit) { try await Task.sleep(for: .seconds(365 * 86_400)) }
    .stall.map { "\($0)" }
}
