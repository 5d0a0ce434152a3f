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
  private var kept: [(RunReporter) -> Void] = []
  private var isShown = true
  private var problem: (any Error)?
  private let signals: SignalDescriptor
  private let thread = LoopThread { _ in }
  private let hasEnded = Semaphore()
  private var shell: ScreenShell?

  /// The maximum number of reports to keep.
  private static let limit = 100
  /// The longest time to wait until the screen has restored the terminal.
  private static let patience: Duration = .seconds(3)

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
    let hasEnded = hasEnded
    thread.handle.post {
      let ending = screen.value.run()
      client.close()
      handle.post { run.value.reporter.left(ending, run.value.supervisor) }
      hasEnded.signal()
    }
  }

  private func left(_ ending: ScreenShell.Ending, _ supervisor: Supervisor) {
    if case .failed(let error) = ending { problem = error }
    release()
    if !supervisor.isStopping { supervisor.requestStop() }
  }

  /// Restores the terminal after the run has ended, and reports the outcome.
  func finish(_ directory: TopologyDirectory) throws {
    shell?.close()
    // A terminal that is not read blocks the screen's thread. It must not block this process.
    if shell != nil { _ = hasEnded.wait(until: .now + Self.patience) }
    release()
    lines.finish(directory)
    if let problem { throw problem }
  }

  private func release() {
    isShown = false
    for tell in kept { tell(lines) }
    kept = []
  }

  private func tell(_ tell: @escaping (RunReporter) -> Void) {
    guard isShown else { return tell(lines) }
    kept = kept.suffix(Self.limit - 1) + [tell]
  }

  // MARK: Reports of the supervisor

  func report(_ report: TopologyReport) { tell { $0.report(report) } }
  func report(node: String, _ report: NodeReport) { tell { $0.report(node: node, report) } }
  func warning(_ text: String) { tell { $0.warning(text) } }

  func line(node: String, _ stream: LogStream, _ text: String) {
    tell { $0.line(node: node, stream, text) }
  }

  func refresh(_ directory: TopologyDirectory) {
    if !isShown { lines.refresh(directory) }
  }
}
