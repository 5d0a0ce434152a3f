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
    var exitChecker: UnexpectedExitChecker
    /// The processes that have lost their orchestrator.
    var orphans: [Survivor] = []
  }

  private let state: Mutex<State>

  /// - Parameter isOnHosts: Whether processes may be killed without a log line.
  init(_ directories: RuntimeDirectories, isOnHosts: Bool) {
    state = Mutex(
      State(
        reader: LogReader(directory: directories.logs),
        exitChecker: UnexpectedExitChecker(toleratesKills: isOnHosts)))
  }

  /// The faults that nodes have reported.
  var counts: FaultCounts { state.withLock { $0.counts } }
  var meetings: MeetingCounts { state.withLock { $0.meetings } }
  var violations: [String] { state.withLock { $0.exitChecker.violations } }

  /// Reads the lines since the last call.
  func read() {
    state.withLock { state in
      for entry in state.reader.next() {
        state.counts.add(entry)
        state.meetings.add(entry)
        if entry.node != Self.orchestrator { state.exitChecker.add(entry) }
      }
      var remaining: [Survivor] = []
      for orphan in state.orphans {
        if let exit = orphan.process.exit {
          state.exitChecker.add(exit, of: orphan.node, pid: orphan.process.pid)
        } else {
          remaining.append(orphan)
        }
      }
      state.orphans = remaining
    }
  }

  /// Notes that a signal is about to be sent.
  func note(_ signal: Signal, to survivor: Survivor) {
    state.withLock { $0.exitChecker.note(signal, to: survivor.node, pid: survivor.process.pid) }
  }

  /// Watches the ends of processes that are about to lose their orchestrator.
  func watch(_ orphans: [Survivor]) { state.withLock { $0.orphans += orphans } }
}
