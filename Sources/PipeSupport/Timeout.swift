/// Runs an operation, which must end on cancellation, for at most a duration.
/// - Returns: Its result, or `nil` where the time was up first.
package func withTimeout<Value: Sendable>(
  _ timeout: Duration, _ operation: @escaping @Sendable () async throws -> Value
) async throws -> Value? {
  try await withThrowingTaskGroup(of: Value?.self) { group in
    group.addTask { try await operation() }
    group.addTask {
      try await Task.sleep(for: timeout)
      return nil
    }
    defer { group.cancelAll() }
    return try await group.next() ?? nil
  }
}
