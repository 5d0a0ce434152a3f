import PipeRuntime
import PipeSupervision

/// Reports the state of a run to the service manager: whether the nodes are running, whether the
/// run is stopping, and that the supervising loop still works.
///
/// Each notification contains the whole state, so that a lost notification has no lasting effect.
final class ServiceNotifier {
  private enum Phase { case starting, running, stopping }

  private let manager: ServiceManager
  private var phase = Phase.starting
  private var status = "starting"

  /// The interval of notifications if the service manager does not demand another interval.
  private static let usualInterval: Duration = .seconds(10)

  init(_ manager: ServiceManager) { self.manager = manager }

  /// Sends a notification at each interval, from the loop that supervises the nodes. If the loop
  /// hangs, the notifications end, and the service manager restarts this process.
  func begin(on loop: PollLoop) {
    notify()
    loop.schedule(after: interval) { [self] in begin(on: loop) }
  }

  func take(_ report: TopologyReport) {
    switch report {
    case .running: if phase == .starting { phase = .running }
    case .stopping, .finished: phase = .stopping
    case .starting, .changing, .moved, .allReady: break
    }
    status = "\(report)"
    notify()
  }

  private var interval: Duration {
    manager.watchdogTimeout.map { min($0 / 2, Self.usualInterval) } ?? Self.usualInterval
  }

  private func notify() {
    // A line end would begin another assignment.
    var assignments = ["STATUS=" + status.replacing("\n", with: " ")]
    switch phase {
    case .starting: break
    case .running: assignments.append("READY=1")
    case .stopping: assignments.append("STOPPING=1")
    }
    if manager.watchdogTimeout != nil { assignments.append("WATCHDOG=1") }
    // Starting or stopping a large topology may take longer than the time limit of the service
    // manager. As long as the loop works, each notification postpones the limit.
    if phase != .running {
      assignments.append("EXTEND_TIMEOUT_USEC=\((interval * 3).wholeMilliseconds * 1_000)")
    }
    manager.notify(assignments)
  }
}
