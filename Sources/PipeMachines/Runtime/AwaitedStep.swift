import PipeSupport
import Synchronization

/// A step that takes its time, and the steps that wait for it: an asynchronous transition of a machine, or an
/// action of a store.
///
/// Work that awaits a send to its own machine waits for itself: the machine takes one event after the other. The
/// same goes for a chain of machines, each of which awaits a send to the next. Known is what the task of the step
/// sends itself; a task that it has begun may be awaited or not.
@usableFromInline
final class AwaitedStep: Sendable {
  /// The step whose work the task does, or a task that has begun this one.
  @TaskLocal private static var current: AwaitedStep?

  /// The machine or the store.
  private let owner: ObjectIdentifier
  /// Names its event, for people.
  private let event: @Sendable () -> String
  /// The step that awaits this one.
  private let outer: AwaitedStep?
  private let task = Atomic(0)
  private let isOver = Atomic(false)

  init(
    of owner: ObjectIdentifier, _ event: @escaping @Sendable () -> String,
    awaitedBy outer: AwaitedStep?
  ) {
    self.owner = owner
    self.event = event
    self.outer = outer
  }

  /// Does the work of the step, in the calling task.
  func perform<Result>(
    isolation: isolated (any Actor)? = #isolation, _ work: () async throws -> Result
  ) async rethrows -> Result {
    task.store(Self.taskID, ordering: .relaxed)
    defer { isOver.store(true, ordering: .relaxed) }
    return try await Self.$current.withValue(self, operation: work)
  }

  /// The step that the calling task is in the middle of.
  @usableFromInline
  static var ofCaller: AwaitedStep? {
    guard let step = current, !step.isOver.load(ordering: .relaxed),
      step.task.load(ordering: .relaxed) == taskID
    else { return nil }
    return step
  }

  private static var taskID: Int { withUnsafeCurrentTask { $0?.hashValue ?? 0 } }

  /// Why a send that the step awaits would never return; `nil` where it can.
  func deadlock(sending event: @autoclosure () -> String, to owner: ObjectIdentifier) -> String? {
    guard let blocked = find(owner) else { return nil }
    let through = blocked === self ? "" : " by way of '\(self.event())'"
    return
      "the step of '\(blocked.event())'\(through) awaits the send of '\(event())' to its own machine, which "
      + "takes that only after the step of '\(blocked.event())'"
  }

  /// Whether the machine is in the middle of a step that waits for this one, or is this one.
  func isAwaited(by owner: ObjectIdentifier) -> Bool { find(owner) != nil }

  private func find(_ owner: ObjectIdentifier) -> AwaitedStep? {
    var step: AwaitedStep? = self
    while let next = step {
      if next.owner == owner, !next.isOver.load(ordering: .relaxed) { return next }
      step = next.outer
    }
    return nil
  }

  /// Looks after a send that a task of the step makes, and the step may await: says so where neither ends.
  static func watch(sending event: @autoclosure () -> String, to owner: ObjectIdentifier) {
    guard let current, ofCaller == nil, let blocked = current.find(owner),
      let problem = current.deadlock(sending: event(), to: owner)
    else { return }
    let tell = Warnings.tell
    Task.detached {
      try? await ContinuousClock().sleep(for: patience)
      if !blocked.isOver.load(ordering: .relaxed) {
        tell(
          "\(problem), has not ended for \(patience.shortText), and never does if it waits for that send"
        )
      }
    }
  }

  /// How long a step may take before it is told that it may wait for itself.
  private static var patience: Duration { .seconds(5) }
}

/// The transitions of one machine that were begun to find out where they lead, and have not returned.
///
/// One whose time is up, or whose event is given up, is cancelled and waited for no longer. Where it takes
/// no notice of that it goes on, with all that it holds: so there may only be a few.
package struct UnreturnedTransitions {
  private var count = 0
  private var hasRefused = false
  private var isTold = false

  /// How many may run at a time. Unit: transitions.
  private static var limit: Int { 4 }

  package init() {}

  /// Whether another one may begin; else its event is refused.
  /// - Parameter tell: Told, once, why events are refused.
  package mutating func mayBegin(tell: (String) -> Void) -> Bool {
    if count < Self.limit { return true }
    hasRefused = true
    if !isTold {
      isTold = true
      tell(
        "\(count) asynchronous transitions of synchronized events run on, though they were cancelled: "
          + "until one returns, such events are refused as overdue. Let what they wait for end when "
          + "their task is cancelled")
    }
    return false
  }

  package mutating func begin() { count += 1 }

  /// One has returned, or has thrown.
  /// - Returns: Whether events were refused that may have their turn now.
  package mutating func returned() -> Bool {
    count -= 1
    defer { hasRefused = false }
    return hasRefused
  }
}
