import PipeJournal
import PipeMachines

// A run-time exclusivity check would slow down each event, and only the loop's thread has access.

/// One instance of a keyed node's machine, while it is in memory.
final class Instance<Hosted: Machine> {
  let key: InstanceKey
  /// The number of the instance in its node; 0 until the instance is created.
  @exclusivity(unchecked)
  var id: Int64
  @exclusivity(unchecked)
  var state: Hosted.State
  /// The number of steps of the instance. The entry into the initial state is not a step.
  @exclusivity(unchecked)
  var version: UInt64
  /// The time of the last step. Unit: nanoseconds since 1970.
  @exclusivity(unchecked)
  var time: Int64
  /// The cause of the last step.
  @exclusivity(unchecked)
  var cause: String
  /// The engine, while it takes a step or runs an effect of the instance; `nil` for an instance at
  /// rest.
  @exclusivity(unchecked)
  var engine: InstanceEngine<Hosted>?
  /// Whether the instance has entered a state since the last record.
  @exclusivity(unchecked)
  var isChanged = false
  /// Whether the instance takes part in a transaction, so that all its other inputs wait.
  @exclusivity(unchecked)
  var isLocked = false
  /// The recorded name of the state, if another version of the machine has recorded the state.
  /// `nil` if this version has recorded the state, and after the next step.
  @exclusivity(unchecked)
  var formerLabel: String?
  /// The number of the record with the current state.
  @exclusivity(unchecked)
  var recordNumber: UInt64 = 0
  /// The position of the instance in the ring of the ``InstanceTable``.
  @exclusivity(unchecked)
  var position = 0
  /// Whether the instance was used since the table last looked for instances to evict.
  @exclusivity(unchecked)
  var isRecent = true

  init(
    _ key: InstanceKey, id: Int64 = 0, in state: Hosted.State, version: UInt64 = 0,
    time: Int64 = 0, cause: String = ""
  ) {
    self.id = id
    self.key = key
    self.state = state
    self.version = version
    self.time = time
    self.cause = cause
  }
}

/// The engine that takes the steps of an instance. When the engine is at rest, another instance can
/// use it.
final class InstanceEngine<Hosted: Machine> {
  typealias Input = EngineInput<Hosted.State, Hosted.Event>

  let engine: Engine<Hosted.State, Hosted.Event, Hosted.Output>
  /// The instance whose steps the engine takes; `nil` while no instance needs the engine.
  @exclusivity(unchecked)
  var instance: Instance<Hosted>?
  /// Whether the engine is in the list of engines whose effects are not recorded.
  @exclusivity(unchecked)
  var hasUnrecordedEffects = false
  /// Whether the engine is in the list of engines with waiting input.
  @exclusivity(unchecked)
  var isWaiting = false

  init(_ engine: Engine<Hosted.State, Hosted.Event, Hosted.Output>) { self.engine = engine }
}
