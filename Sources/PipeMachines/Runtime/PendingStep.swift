import PipeSupport
import Synchronization

/// An asynchronous step, with the steps that wait for it. The step is an asynchronous transition of
/// a machine, or an action of a store.
///
/// A machine processes one event after the other. So a step that awaits a send to its own machine
/// waits for itself, which is a deadlock. The same is true of a cycle of machines in which each
/// step awaits a send to the next machine. If the step's own task awaits the send, the deadlock is
/// certain. If a child task awaits the send, there is a deadlock only if the step waits for that
/// child task.
@usableFromInline
final class PendingStep: Sendable {
  /// The step that the current task, or an ancestor of it, performs.
  @TaskLocal private static var current: PendingStep?

  /// The machine or the store that takes the step.
  private let owner: ObjectIdentifier
  /// Returns a text that describes the event in messages.
  private let describeEvent: @Sendable () -> String
  /// The step that waits for this step; `nil` if no step waits.
  private let outerStep: PendingStep?
  private let task = Atomic(0)
  private let isOver = Atomic(false)

  init(
    of owner: ObjectIdentifier, _ event: @escaping @Sendable () -> String,
    awaitedBy outer: PendingStep?
  ) {
    self.owner = owner
    self.describeEvent = event
    self.outerStep = outer
  }

  /// Performs the work of the step in the calling task.
  func perform<Result>(
    isolation: isolated (any Actor)? = #isolation, _ work: () async throws -> Result
  ) async rethrows -> Result {
    task.store(Self.taskID, ordering: .relaxed)
    defer { isOver.store(true, ordering: .relaxed) }
    return try await Self.$current.withValue(self, operation: work)
  }

  /// The unfinished step that the calling task performs; `nil` if the task performs none itself.
  @usableFromInline
  static var ofCaller: PendingStep? {
    guard let step = current, !step.isOver.load(ordering: .relaxed),
      step.task.load(ordering: .relaxed) == taskID
    else { return nil }
    return step
  }

  private static var taskID: Int { withUnsafeCurrentTask { $0?.hashValue ?? 0 } }

  /// Returns a message if a send that the step awaits would never return; `nil` if the send can
  /// return.
  func deadlock(sending event: @autoclosure () -> String, to owner: ObjectIdentifier) -> String? {
    guard let blocked = find(owner) else { return nil }
    let through = blocked === self ? "" : " (through the step of '\(self.describeEvent())')"
    return
      "the step of '\(blocked.describeEvent())'\(through) awaits the send of '\(event())' to its own machine, which "
      + "processes the send only after the step of '\(blocked.describeEvent())'"
  }

  /// Returns whether the current step of the machine `owner` is this step, or waits for this step.
  func isAwaited(by owner: ObjectIdentifier) -> Bool { find(owner) != nil }

  private func find(_ owner: ObjectIdentifier) -> PendingStep? {
    var step: PendingStep? = self
    while let next = step {
      if next.owner == owner, !next.isOver.load(ordering: .relaxed) { return next }
      step = next.outerStep
    }
    return nil
  }

  /// Watches a send by a child task of the step, because the step may wait for the child task.
  /// Reports a possible deadlock if the step does not end.
  static func watch(sending event: @autoclosure () -> String, to owner: ObjectIdentifier) {
    guard let current, ofCaller == nil, let blocked = current.find(owner),
      let problem = current.deadlock(sending: event(), to: owner)
    else { return }
    let tell = Warnings.tell
    Task.detached {
      try? await ContinuousClock().sleep(for: warningDelay)
      if !blocked.isOver.load(ordering: .relaxed) {
        tell(
          "possible deadlock: \(problem); the step has not ended for \(warningDelay.shortText), and "
            + "never ends if it waits for the send"
        )
      }
    }
  }

  /// The time after which a step is reported, if the step may wait for itself.
  private static var warningDelay: Duration { .seconds(5) }
}

/// Counts the transitions of one machine that were started for synchronized events and have not
/// returned.
///
/// If a transition exceeds its time limit, or its event is abandoned, the transition is cancelled,
/// and the machine stops waiting for it. A transition that ignores the cancellation keeps running,
/// and keeps its resources. So the number of such transitions is limited.
package struct RunningTransitionLimit {
  private var runningCount = 0
  /// Whether a transition has been refused since the most recent return of a transition.
  private var hasRefusedTransition = false
  private var hasReported = false

  /// The maximum number of running transitions. Unit: transitions.
  private static var maximumCount: Int { 4 }

  package init() {}

  /// Returns whether another transition may begin. If not, the caller refuses the transition's
  /// event.
  /// - Parameter tell: Called once, with the reason why events are refused.
  package mutating func mayBegin(tell: (String) -> Void) -> Bool {
    if runningCount < Self.maximumCount { return true }
    hasRefusedTransition = true
    if !hasReported {
      hasReported = true
      tell(
        "\(runningCount) asynchronous transitions of synchronized events were cancelled, but are still "
          + "running; further events with such transitions are refused as timed out until a "
          + "transition returns; return from the transitions when their task is cancelled")
    }
    return false
  }

  package mutating func begin() { runningCount += 1 }

  /// Records that a transition has returned or thrown.
  /// - Returns: Whether events that were refused because of the limit can be tried again now.
  package mutating func returned() -> Bool {
    runningCount -= 1
    defer { hasRefusedTransition = false }
    return hasRefusedTransition
  }
}
