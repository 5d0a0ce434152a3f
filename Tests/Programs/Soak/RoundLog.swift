import PipeClient
import PipeRuntime
import PipeSupervision
import Synchronization

/// The information from logs and process exits while a topology runs.
final class RoundLog: Sendable {
  /// The name of the orchestrator's log, which does not belong to a node.
  static let orchestrator = "orchestrator"

  private struct State {
    var reader: LogReader
    var counts = FaultCounts()
    var meetings = MeetingCounts()
    var ends: EndCheck
    /// The processes that have lost their orchestrator.
    var orphans: [Survivor] = []
  }

  private let state: Mutex<State>

  /// - Parameter isOnHosts: Whether processes may be killed without a log line.
  init(_ directories: RuntimeDirectories, isOnHosts: Bool) {
    state = Mutex(
      State(
        reader: LogReader(directory: directories.logs), ends: EndCheck(toleratesKills: isOnHosts)))
  }

  /// The faults that nodes have reported.
  var counts: FaultCounts { state.withLock { $0.counts } }
  var meetings: MeetingCounts { state.withLock { $0.meetings } }
  var violations: [String] { state.withLock { $0.ends.violations } }

  /// Reads the lines since the last call.
  func read() {
    state.withLock { state in
      for entry in state.reader.next() {
        state.counts.take(entry)
        state.meetings.take(entry)
        if entry.node != Self.orchestrator { state.ends.take(entry) }
      }
      var left: [Survivor] = []
      for orphan in state.orphans {
        if let exit = orphan.process.exit {
          state.ends.take(exit, of: orphan.node, pid: orphan.process.pid)
        } else {
          left.append(orphan)
        }
      }
      state.orphans = left
    }
  }

  /// Notes that a signal is about to be sent.
  func note(_ signal: Signal, to survivor: Survivor) {
    state.withLock { $0.ends.note(signal, to: survivor.node, pid: survivor.process.pid) }
  }

  /// Watches the ends of processes that are about to lose their orchestrator.
  func watch(_ orphans: [Survivor]) { state.withLock { $0.orphans += orphans } }
}
