import PipeRuntime

/// A value that others may wait for to change.
final class Watched<Value: Sendable>: Sendable {
  private struct Content {
    var value: Value
    var changes = 0
    var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    var lastID = 0
  }

  private let content: Locked<Content>

  init(_ value: Value) { content = Locked(Content(value: value)) }

  var value: Value { content.withLock(\.value) }

  /// How often it was changed.
  var changes: Int { content.withLock(\.changes) }

  /// Changes the value, and wakes whoever waits.
  func change<Result>(_ body: (inout Value) -> sending Result) -> sending Result {
    let (result, waiting) = content.withLock { content in
      let result = body(&content.value)
      content.changes += 1
      defer { content.waiting = [:] }
      return (result, Array(content.waiting.values))
    }
    for continuation in waiting { continuation.resume() }
    return result
  }

  /// Waits until the search finds what it looks for; `nil` if the task is cancelled.
  func first<Result: Sendable>(
    within limit: Duration, _ search: @escaping @Sendable (inout Value) -> Result?
  ) async -> Waited<Result>? {
    // Cancellation is the only error.
    try? await withStallLimit(limit) { [self] in
      while !Task.isCancelled {
        let (found, changes) = content.withLock { (search(&$0.value), $0.changes) }
        if let found { return found }
        await hasChanged(since: changes)
      }
      throw CancellationError()
    }
  }

  private func hasChanged(since changes: Int) async {
    let id = content.withLock { content in
      content.lastID += 1
      return content.lastID
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isDone = content.withLock { content in
          if content.changes != changes || Task.isCancelled { return true }
          content.waiting[id] = continuation
          return false
        }
        if isDone { continuation.resume() }
      }
    } onCancel: {
      content.withLock { $0.waiting.removeValue(forKey: id) }?.resume()
    }
  }
}
