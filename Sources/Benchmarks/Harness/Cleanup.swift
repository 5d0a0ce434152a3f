import Glibc
import PipeRuntime
import Synchronization

/// Undoes what a measurement has set up, also when it is interrupted.
enum Cleanup {
  private struct State {
    var lastID = 0
    var entries: [(id: Int, undo: @Sendable () -> Void)] = []
  }

  private static let state = Mutex(State())

  /// Has SIGINT and SIGTERM undo everything, last first, and end the process.
  ///
  /// Children of the main thread get SIGKILL when it ends.
  static func watchSignals() throws {
    let signals = try SignalDescriptor([.interrupt, .terminate])
    _ = LoopThread { loop in
      loop.add(descriptor: signals.descriptor) {
        guard let signal = signals.next() else { return }
        let entries = state.withLock { state in state.entries }
        for entry in entries.reversed() { entry.undo() }
        exit(128 + signal.number)
      }
    }
  }

  /// Registers what is to be undone; returns the number to take it back with.
  static func add(_ undo: @escaping @Sendable () -> Void) -> Int {
    state.withLock { state in
      state.lastID += 1
      state.entries.append((state.lastID, undo))
      return state.lastID
    }
  }

  static func remove(_ id: Int) {
    state.withLock { state in state.entries.removeAll { $0.id == id } }
  }
}
