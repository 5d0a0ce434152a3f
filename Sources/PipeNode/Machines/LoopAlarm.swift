import PipeTransport

/// A resettable timer of the event loop. The timer fires at most once after each call of
/// ``set(_:_:)``.
final class LoopAlarm {
  private let loop: PollLoop
  private var timer: TimerQueue.ID?

  init(_ loop: PollLoop) { self.loop = loop }

  deinit { cancel() }

  /// Calls `ring` after `delay`, unless the alarm is set again before. `nil` cancels the alarm.
  func set(_ delay: Duration?, _ ring: @escaping () -> Void) {
    cancel()
    guard let delay else { return }
    timer = loop.schedule(after: delay, for: self) { alarm in
      alarm.timer = nil
      ring()
    }
  }

  private func cancel() {
    if let timer { loop.cancel(timer) }
    timer = nil
  }
}
