import PipeMachines
import PipeSupport

/// A history that one writes, on any thread, while others read it.
package final class InspectionRecorder: Sendable {
  private let history: Locked<InspectionHistory>

  /// Between two looks of a client that waits for news: so often it is told of something at most.
  private static let pace: Duration = .milliseconds(100)

  /// - Parameter room: For what has happened. Unit: bytes.
  package init(room: Int = 64 << 20) {
    // So that numbers of another history are known for what they are; a page reads them as they stand.
    let origin = UInt64.random(in: 1...(1 << 40)) << 12
    history = Locked(InspectionHistory(room: room, origin: origin))
  }

  /// Takes what has happened.
  /// - Returns: `false` where it is too large.
  @discardableResult
  package func append(_ json: [UInt8]) -> Bool { history.withLock { $0.append(json) } }

  package func append(_ record: JSONValue) { append(record.bytes) }

  /// Takes lines of logs.
  package func write(_ records: [JSONValue]) {
    let lines = records.map(\.bytes)
    history.withLock { for line in lines { $0.write(line) } }
  }

  /// Takes how something stands now.
  package func set(_ name: String, _ record: JSONValue) {
    let json = record.bytes
    history.withLock { $0.set(name, json) }
  }

  /// Forgets how all stands that has none of these names.
  package func keep(only names: Set<String>) { history.withLock { $0.keep(only: names) } }

  /// What a client has not seen, and when that was; where there is nothing, it is waited for.
  /// - Parameters:
  ///   - cursor: The last number that the client has seen.
  ///   - patience: How long it waits at most.
  ///   - limit: For what has happened. Unit: bytes.
  package func news(
    after cursor: UInt64, within patience: Duration, limit: Int
  ) async -> InspectionDelta {
    let deadline = ContinuousClock.now + patience
    repeat {
      // Before the first look, too: what comes now is told together.
      try? await Task.sleep(for: Self.pace)
      if history.withLock({ $0.last != cursor }) { break }
    } while ContinuousClock.now < deadline && !Task.isCancelled
    var delta = history.withLock { $0.delta(after: cursor, limit: limit) }
    delta.time = WallClock.nanoseconds
    return delta
  }
}
