import Glibc
import Synchronization

/// Lets only some topologies run at once: a test framework starts all its tests together, and
/// hundreds of processes on a few cores would only wait for one another's time.
package final class LaunchLimit: Sendable {
  private struct State {
    var free: Int
    var waiting: [CheckedContinuation<Void, Never>] = []
  }

  private let state: Mutex<State>

  /// All topologies of this process: one for each core, and two on one core.
  package static let shared = LaunchLimit(max(2, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))))

  /// A topology within a topology's test must not wait for that one's end.
  @TaskLocal private static var isInside = false

  init(_ count: Int) { state = Mutex(State(free: count)) }

  /// Runs the body once there is room.
  package func run<Result>(
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
  ) async throws -> Result {
    if Self.isInside { return try await body() }
    await enter()
    defer { leave() }
    try Task.checkCancellation()
    return try await Self.$isInside.withValue(true) { try await body() }
  }

  private func enter() async {
    await withCheckedContinuation { continuation in
      let hasRoom = state.withLock { state in
        if state.free > 0 {
          state.free -= 1
          return true
        }
        state.waiting.append(continuation)
        return false
      }
      if hasRoom { continuation.resume() }
    }
  }

  private func leave() {
    let next = state.withLock { state in
      if state.waiting.isEmpty {
        state.free += 1
        return nil as CheckedContinuation<Void, Never>?
      }
      return state.waiting.removeFirst()
    }
    next?.resume()
  }
}
