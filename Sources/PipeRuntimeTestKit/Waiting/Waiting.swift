import PipeRuntime

/// How a wait ended.
enum Waited<Value> {
  case found(Value)
  /// What was waited for has stalled.
  case stalled(Stall)

  /// What was found.
  var value: Value? {
    if case .found(let value) = self { value } else { nil }
  }

  /// What ended it, where nothing was found.
  var stall: Stall? {
    if case .stalled(let stall) = self { stall } else { nil }
  }
}

extension Waited: Sendable where Value: Sendable {}

/// Asks again and again until there is an answer, or until nothing has moved for the limit.
/// - Parameters:
///   - limit: Time in which neither this process nor those of the directory computed, or waited for a
///     processor or a disk: a busy machine does not shorten a wait.
///   - directory: The test's, whose processes are waited for; `nil` takes those of all tests.
func ask<Answer>(
  every pause: Duration = .milliseconds(2), within limit: Duration,
  of directory: TestDirectory? = nil, isolation: isolated (any Actor)? = #isolation,
  _ question: () async throws -> Answer?
) async throws -> Waited<Answer> {
  var detector = StallDetector(limit: limit, directory: directory)
  while true {
    let stall = detector.check()
    // Once more after the limit: the asking may have been slow, not the answer.
    if let answer = try await question() { return .found(answer) }
    if let stall { return .stalled(stall) }
    try await Task.sleep(for: pause)
  }
}

/// The same where a test says itself what the lack of an answer means: `nil`, and what the machine was
/// doing is printed to standard error.
package func poll<Answer>(
  every pause: Duration = .milliseconds(2), within limit: Duration,
  of directory: TestDirectory? = nil, isolation: isolated (any Actor)? = #isolation,
  fileID: String = #fileID, line: UInt = #line, _ question: () async throws -> Answer?
) async throws -> Answer? {
  switch try await ask(every: pause, within: limit, of: directory, question) {
  case .found(let answer): return answer
  case .stalled(let stall):
    StandardError.write("\(fileID):\(line): a wait was given up: \(stall)\n")
    return nil
  }
}

/// Runs an operation, which must end on cancellation, until nothing has moved for the limit.
func withStallLimit<Value: Sendable>(
  _ limit: Duration, of directory: TestDirectory? = nil,
  _ operation: @escaping @Sendable () async throws -> Value
) async throws -> Waited<Value> {
  try await withThrowingTaskGroup(of: Waited<Value>.self) { group in
    group.addTask { .found(try await operation()) }
    group.addTask {
      var detector = StallDetector(limit: limit, directory: directory)
      while true {
        if let stall = detector.check() { return .stalled(stall) }
        try await Task.sleep(for: min(limit, StallDetector.interval))
      }
    }
    defer { group.cancelAll() }
    guard let first = try await group.next() else { throw CancellationError() }
    return first
  }
}

/// The same where a test says itself what the lack of a result means.
package func unlessStalled<Value: Sendable>(
  for limit: Duration, fileID: String = #fileID, line: UInt = #line,
  _ operation: @escaping @Sendable () async throws -> Value
) async throws -> Value? {
  switch try await withStallLimit(limit, operation) {
  case .found(let value): return value
  case .stalled(let stall):
    StandardError.write("\(fileID):\(line): a wait was given up: \(stall)\n")
    return nil
  }
}

/// Waits until nothing has moved for the limit. Returns what was seen, for a person to read.
package func stallDescription(after limit: Duration) async throws -> String? {
  try await withStallLimit(limit) { try await Task.sleep(for: .seconds(365 * 86_400)) }
    .stall.map { "\($0)" }
}
