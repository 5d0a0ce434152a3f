import PipeClient
import PipeRuntime
import PipeSupervision
import Synchronization

/// Collects information about a running topology from logs and process exits.
final class RoundLog: Sendable {
  /// The name of the orchestrator's own log, which belongs to no node.
  static let orchestrator = "orchestrator"

  private struct State {
    var reader: LogReader
    var counts = FaultCounts()
    var meetings = MeetingCounts()
    var exitChecker: UnexpectedExitChecker
    /// The processes whose orchestrator has ended.
    var orphans: [Survivor] = []
  }

  private let state: Mutex<State>

  /// - Parameter isOnHosts: Whether the topology runs on several hosts, where processes may be
  ///   killed without a log line.
  init(_ directories: RuntimeDirectories, isOnHosts: Bool) {
    state = Mutex(
      State(
        reader: LogReader(directory: directories.logs),
        exitChecker: UnexpectedExitChecker(toleratesKills: isOnHosts)))
  }

  /// The counts of the faults that nodes have reported.
  var counts: FaultCounts { state.withLock { $0.counts } }
  var meetings: MeetingCounts { state.withLock { $0.meetings } }
  var violations: [String] { state.withLock { $0.exitChecker.violations } }

  /// Reads the log lines since the last call.
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

  /// Records that a signal is about to be sent.
  func note(_ signal: Signal, to survivor: Survivor) {
    state.withLock { $0.exitChecker.note(signal, to: survivor.node, pid: survivor.process.pid) }
  }

  /// Watches for the ends of processes that are about to lose their orchestrator.
  func watch(_ orphans: [Survivor]) { state.withLock { $0.orphans += orphans } }
}
