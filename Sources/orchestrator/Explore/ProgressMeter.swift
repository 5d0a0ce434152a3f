import PipeRuntime

/// Tells on standard error how far a search has got, now and then.
final class ProgressMeter {
  private let console: Console
  private let start = ContinuousClock.now
  private var last = ContinuousClock.now

  /// A person wants to see that something moves; a log that it has.
  private static let pause: Duration = .seconds(2)

  init(_ console: Console) { self.console = console }

  func show(_ progress: ExplorationProgress) {
    let now = ContinuousClock.now
    guard now - last >= Self.pause else { return }
    last = now
    console.note(Self.line(progress, after: now - start))
  }

  /// `1200 states, 600 states/s, depth 12, 3 MiB`
  static func line(_ progress: ExplorationProgress, after time: Duration) -> String {
    let milliseconds = max(1, Int(clamping: time.wholeMilliseconds))
    let rate = progress.states.multipliedReportingOverflow(by: 1000).partialValue / milliseconds
    return "\(progress.states.counted("state")), \(rate) states/s, depth \(progress.depth), "
      + "\(progress.byteCount >> 20) MiB"
  }
}
