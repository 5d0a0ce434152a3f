import PipeClient
import PipeRuntime
import PipeSupervision

/// Shows a run on the whole terminal, from its own thread. When the person leaves the screen, the
/// run stops in order.
///
/// Everything except the screen belongs to the supervisor's thread.
final class ScreenRun: Supervisor.Reporter {
  private let lines: RunReporter
  /// The latest reports that arrived while the screen was shown.
  private var pendingReports: [(RunReporter) -> Void] = []
  private var isScreenShown = true
  private var problem: (any Error)?
  private let signals: SignalDescriptor
  private let thread = LoopThread { _ in }
  private let screenEnded = Semaphore()
  private var shell: ScreenShell?

  /// The maximum number of reports to keep.
  private static let pendingReportLimit = 100
  /// The longest time to wait until the screen has restored the terminal.
  private static let restoreTimeout: Duration = .seconds(3)

  /// The signals that the screen handles. The supervisor handles the others.
  static let signals: [Signal] = [.windowSize, .resume]

  /// - Parameter lines: Receives the kept reports when the screen is left.
  init(lines: RunReporter, _ signals: SignalDescriptor) {
    self.lines = lines
    self.signals = signals
  }

  /// Starts to show the screen.
  func show(_ directories: RuntimeDirectories, _ supervisor: Supervisor) throws {
    let client = try TopologyClient.attach(to: directories.topology)
    guard
      let shell = ScreenShell(
        client: client, directories: directories, signals: signals, endsTopology: true)
    else {
      client.close()
      throw CommandError(
        "--ui requires a terminal as standard input and output; omit --ui", code: .usage)
    }
    self.shell = shell
    let screen = LoopOwned(shell)
    let run = LoopOwned((reporter: self, supervisor: supervisor))
    let handle = supervisor.loop.handle
    let screenEnded = screenEnded
    thread.handle.post {
      let endReason = screen.value.run()
      client.close()
      handle.post { run.value.reporter.screenDidEnd(endReason, run.value.supervisor) }
      screenEnded.signal()
    }
  }

  private func screenDidEnd(_ endReason: ScreenShell.EndReason, _ supervisor: Supervisor) {
    if case .failed(let error) = endReason { problem = error }
    deliverPendingReports()
    if !supervisor.isStopping { supervisor.requestStop() }
  }

  /// Restores the terminal after the run has ended, and reports the outcome.
  func finish(_ directory: TopologyDirectory) throws {
    shell?.close()
    // A terminal that is not read blocks the screen's thread. It must not block this process.
    if shell != nil { _ = screenEnded.wait(until: .now + Self.restoreTimeout) }
    deliverPendingReports()
    lines.finish(directory)
    if let problem { throw problem }
  }

  private func deliverPendingReports() {
    isScreenShown = false
    for deliver in pendingReports { deliver(lines) }
    pendingReports = []
  }

  private func deliver(_ deliver: @escaping (RunReporter) -> Void) {
    guard isScreenShown else { return deliver(lines) }
    pendingReports = pendingReports.suffix(Self.pendingReportLimit - 1) + [deliver]
  }

  // MARK: Reports of the supervisor

  func report(_ report: TopologyReport) { deliver { $0.report(report) } }
  func report(node: String, _ report: NodeReport) { deliver { $0.report(node: node, report) } }
  func warning(_ text: String) { deliver { $0.warning(text) } }

  func line(node: String, _ stream: LogStream, _ text: String) {
    deliver { $0.line(node: node, stream, text) }
  }

  func refresh(_ directory: TopologyDirectory) {
    if !isScreenShown { lines.refresh(directory) }
  }
}
