import PipeSupport

/// Which effect of a machine it is: the step that started it, and which of those it started.
package struct EffectOrigin: Hashable, Sendable {
  /// The version of the step.
  package var version: UInt64
  /// 0 for the effect of the output; the place of a feedback, counted from 1.
  package var feedback = 0

  package init(version: UInt64, feedback: Int = 0) {
    self.version = version
    self.feedback = feedback
  }

  /// The recorded effect whose work the task does; `nil` in any other task.
  @TaskLocal package static var recorded: EffectOrigin?
}

/// An effect that has not ended.
package struct RunningEffect<State: DSLCompatible, Event: DSLCompatible> {
  package let origin: EffectOrigin
  /// The state of the step that started it.
  package let state: State
  /// The tag of the output that it is the effect of; `nil` for a feedback.
  var outputTag: Int?
  let strategy: ExecutionStrategy<State>
  let priority: TaskPriority?
  let run: @Sendable (EffectDelivery<Event>) async -> Void
  /// When it was started, or last gave an event.
  package var progress: BootClock.Instant?
  /// Whether it does not run: a feedback that has started too often, or an effect that is parked because it
  /// has ended its process.
  var isBlocked = false
  /// `nil` while its start waits for the record, and where it is held.
  var task: Task<Void, Never>?
}

/// What has happened to effects since the last record.
struct UnrecordedEffects {
  /// Started, or given an event.
  private(set) var startedIDs: [UInt64] = []
  private(set) var ended: [EffectOrigin] = []
  private(set) var replies: [EffectReply] = []

  var isEmpty: Bool { startedIDs.isEmpty && ended.isEmpty && replies.isEmpty }

  mutating func started(_ id: UInt64) {
    if !startedIDs.contains(id) { startedIDs.append(id) }
  }

  mutating func ended(_ id: UInt64, _ origin: EffectOrigin) {
    startedIDs.removeAll { $0 == id }
    ended.append(origin)
  }

  mutating func append(_ reply: EffectReply) { replies.append(reply) }

  mutating func takeReplies() -> [EffectReply] {
    defer { replies = [] }
    return replies
  }
}
