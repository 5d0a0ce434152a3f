import PipeClient
import PipeRuntime
import PipeSupervision

/// Shows a run on the whole terminal. When the user leaves the screen, the run stops gracefully.
///
/// The screen runs on its own thread. All other parts run on the supervisor's thread.
final class ScreenRun: Supervisor.Reporter {
  private let lineReporter: RunReporter
  /// The last reports that have arrived while the screen was shown. They are written after the user
  /// has left the screen.
  private var pendingReports: [(RunReporter) -> Void] = []
  private var isScreenShown = true
  private var screenError: (any Error)?
  private let signals: SignalDescriptor
  private let thread = LoopThread { _ in }
  private let screenEnded = Semaphore()
  private var shell: ScreenShell?

  /// The maximum number of reports in `pendingReports`.
  private static let pendingReportLimit = 100
  /// The maximum wait until the screen has restored the terminal.
  private static let restoreTimeout: Duration = .seconds(3)

  /// The signals that the screen handles. The supervisor handles the other signals.
  static let signals: [Signal] = [.windowSize, .resume]

  /// - Parameter lines: Receives the pending reports when the user leaves the screen.
  init(lines: RunReporter, _ signals: SignalDescriptor) {
    self.lineReporter = lines
    self.signals = signals
  }

  /// Begins to show the screen.
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
    if case .failed(let error) = endReason { screenError = error }
    deliverPendingReports()
    if !supervisor.isStopping { supervisor.requestStop() }
  }

  /// Waits until the screen has restored the terminal after the end of the run, and reports the
  /// outcome.
  func finish(_ directory: TopologyDirectory) throws {
    shell?.close()
    // If no program reads the terminal's output, the screen's thread is blocked. This process must
    // not wait for that thread forever.
    if shell != nil { _ = screenEnded.wait(until: .now + Self.restoreTimeout) }
    deliverPendingReports()
    lineReporter.finish(directory)
    if let screenError { throw screenError }
  }

  private func deliverPendingReports() {
    isScreenShown = false
    for deliver in pendingReports { deliver(lineReporter) }
    pendingReports = []
  }

  private func deliver(_ deliver: @escaping (RunReporter) -> Void) {
    guard isScreenShown else { return deliver(lineReporter) }
    pendingReports = pendingReports.suffix(Self.pendingReportLimit - 1) + [deliver]
  }

  // MARK: Reports of the supervisor

  func report(_ report: TopologyReport) { deliver { $0.report(report) } }
  func report(node: String, _ report: NodeReport) { deliver { $0.report(node: node, report) } }
  func warning(_ text: String) { deliver { $0.warning(text) } }

  func showLine(node: String, _ stream: LogStream, _ text: String) {
    deliver { $0.showLine(node: node, stream, text) }
  }

  func refresh(_ directory: TopologyDirectory) {
    if !isScreenShown { lineReporter.refresh(directory) }
  }
}
