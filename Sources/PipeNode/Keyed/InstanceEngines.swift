import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// The engines of a keyed node: one for each instance with a step or an effect in progress, and
/// a few at rest.
///
/// An instance at rest has no engine, so that it takes little memory.
final class InstanceEngines<Hosted: Machine> {
  typealias HostedEngine = Engine<Hosted.State, Hosted.Event, Hosted.Output>

  /// A reference to the content that the engines call back. Set once; afterwards only the loop's
  /// thread reads and writes the reference.
  final class Owner: @unchecked Sendable {
    weak var content: KeyedContent<Hosted>?
    /// A reference to the same content for calls by its own engines. The content outlives these
    /// engines.
    unowned(unsafe) var caller: KeyedContent<Hosted>?
  }

  let owner = Owner()
  /// Returns whether all engines must wait before the next step; `nil` if the engines never wait.
  @exclusivity(unchecked)
  var mustWait: (() -> Bool)?
  /// A machine with its runtime.
  typealias Parts = (
    machine: StateMachine<Hosted.State, Hosted.Event, Hosted.Output>,
    runtime: Runtime<Hosted.State, Hosted.Event, Hosted.Output>
  )

  /// Whether the engines report their steps.
  @exclusivity(unchecked)
  var isTraced = false {
    didSet {
      for hosted in Array(busy.values) + atRest { trace(hosted) }
    }
  }

  private let shared: Parts
  /// Returns the machine of the instance with the given key. The key is a parameter of this
  /// machine. Returns `nil` if the parameter does not accept the key. The closure is `nil` if all
  /// instances share the machine.
  private let own: ((InstanceKey) -> Parts?)?
  private let loop: LoopHandle
  private let log: NodeLog
  private let isRecorded: Bool
  let hasEffects: Bool
  @exclusivity(unchecked)
  private var atRest: [InstanceEngine<Hosted>] = []
  @exclusivity(unchecked)
  private var busy: [ObjectIdentifier: InstanceEngine<Hosted>] = [:]
  @exclusivity(unchecked)
  private var unrecorded: [InstanceEngine<Hosted>] = []
  @exclusivity(unchecked)
  private var waiting: [InstanceEngine<Hosted>] = []
  /// The number of events that engines had refused before they were released.
  private var earlierRefusals: UInt64 = 0
  /// The number of events that engines had ignored before they were released.
  private var earlierIgnoredEvents: UInt64 = 0

  /// The maximum number of engines that are kept at rest. Unit: engines.
  private static var restingLimit: Int { 16 }

  init(
    _ shared: Parts, own: ((InstanceKey) -> Parts?)?, loop: LoopHandle, log: NodeLog,
    isRecorded: Bool
  ) {
    self.shared = shared
    self.own = own
    self.loop = loop
    self.log = log
    self.isRecorded = isRecorded
    hasEffects = shared.runtime.hasEffects
  }

  /// Returns an instance in its initial state, which is not created yet.
  func makeInstance(_ key: InstanceKey) -> Instance<Hosted> {
    Instance(key, in: parts(of: key).machine.initial)
  }

  /// Returns whether an event causes a step of an instance in its initial state. An asynchronous
  /// transition counts as a step. A refused or ignored event causes no step.
  func isStep(_ event: Hosted.Event, of key: InstanceKey) -> Bool {
    let machine = machine(of: key)
    switch machine.step(machine.initial, event) {
    case .next, .stays, .suspended: return true
    case .ignored, .refused: return false
    }
  }

  /// Returns whether the machine accepts the key as a parameter. Also true if the machine has no
  /// such parameter.
  func accepts(_ key: InstanceKey) -> Bool { own.map { $0(key) != nil } ?? true }

  /// Returns the machine of an instance.
  func machine(
    of key: InstanceKey
  ) -> StateMachine<Hosted.State, Hosted.Event, Hosted.Output> { parts(of: key).machine }

  private func parts(of key: InstanceKey) -> Parts { own.flatMap { $0(key) } ?? shared }

  // MARK: Engines of instances

  private lazy var idleEngine = make(shared)
  /// An engine without an instance. It is the current engine between the steps of instances.
  var idle: HostedEngine { idleEngine.engine }

  /// Returns an engine for an instance.
  func take(for key: InstanceKey) -> InstanceEngine<Hosted> {
    let hosted = own.map { make($0(key) ?? shared) } ?? atRest.popLast() ?? make(shared)
    busy[ObjectIdentifier(hosted)] = hosted
    return hosted
  }

  /// Takes back an engine that is at rest.
  func put(back hosted: InstanceEngine<Hosted>) {
    hosted.instance = nil
    busy[ObjectIdentifier(hosted)] = nil
    if own == nil, atRest.count < Self.restingLimit {
      atRest.append(hosted)
    } else {
      earlierRefusals += hosted.engine.refusals
      earlierIgnoredEvents += hosted.engine.ignoredEvents
      hosted.engine.stop()
    }
  }

  /// A weak reference to an engine, for the inputs that the engine's tasks post.
  private final class Reference: @unchecked Sendable { weak var hosted: InstanceEngine<Hosted>? }

  private func make(_ parts: Parts) -> InstanceEngine<Hosted> {
    let (loop, owner, reference) = (loop, owner, Reference())
    let engine = HostedEngine(machine: parts.machine, runtime: parts.runtime) { input in
      loop.post {
        guard let hosted = reference.hosted else { return }
        owner.content?.process(input, in: hosted)
      }
    }
    engine.onError = { [log] in log.warning($0) }
    if isRecorded { engine.effects.deferUntilRecorded() }
    let hosted = InstanceEngine<Hosted>(engine)
    reference.hosted = hosted
    engine.onEntry = { [unowned(unsafe) hosted] state, version, cause in
      owner.caller?.entered(state, version: version, cause: cause, in: hosted)
    }
    engine.onInternalTransition = { [unowned(unsafe) hosted] state, version, cause in
      owner.caller?.stayed(in: state, version: version, cause: cause, in: hosted)
    }
    engine.mustWait = { [unowned(unsafe) self, unowned(unsafe) hosted] in
      hosted.instance?.isLocked == true || mustWait?() ?? false
    }
    engine.onFailure = { [unowned(unsafe) hosted] in owner.caller?.fail($0, in: hosted) }
    engine.timers?.letOwnerRunTimers { [unowned(unsafe) hosted] next in
      owner.caller?.timerSteps.keep(next, in: hosted)
    }
    engine.beginSharing()
    if isTraced { trace(hosted) }
    return hosted
  }

  private func trace(_ hosted: InstanceEngine<Hosted>) {
    let owner = owner
    hosted.engine.trace.willTakeStep =
      isTraced ? { owner.caller?.trace.willTakeStep(on: $0, from: $1) ?? false } : nil
    hosted.engine.trace.didTakeStep =
      isTraced
      ? { [unowned(unsafe) hosted] in owner.caller?.trace.didTakeStep(of: hosted) } : nil
  }

  func stop() {
    for hosted in busy.values { hosted.engine.stop() }
    for hosted in atRest { hosted.engine.stop() }
    idle.stop()
  }

  // MARK: Waiting input

  /// Whether an input waits that can be processed now.
  var hasReadyInput: Bool { waiting.contains { $0.engine.canTakeInput } }

  /// Calls `body` with each engine whose waiting input can be processed now.
  func wake(_ body: (InstanceEngine<Hosted>) -> Void) {
    guard !waiting.isEmpty else { return }
    for hosted in waiting where hosted.engine.canTakeInput { body(hosted) }
    waiting.removeAll { hosted in
      hosted.isWaiting = hosted.engine.hasQueuedInput
      return !hosted.isWaiting
    }
  }

  // MARK: Effects of instances

  var runningEffects: Int { busy.values.reduce(0) { $0 + $1.engine.runningEffectCount } }

  /// The number of refused events since the start of this process.
  var refusals: UInt64 {
    earlierRefusals + atRest.reduce(0) { $0 + $1.engine.refusals }
      + busy.values.reduce(0) { $0 + $1.engine.refusals }
  }

  /// The number of ignored events since the start of this process.
  var ignoredEvents: UInt64 {
    earlierIgnoredEvents + atRest.reduce(0) { $0 + $1.engine.ignoredEvents }
      + busy.values.reduce(0) { $0 + $1.engine.ignoredEvents }
  }

  /// Notes that an engine has unrecorded effects or waiting input.
  func noteChanges(of hosted: InstanceEngine<Hosted>) {
    if hosted.engine.effects.hasUnrecordedChanges, !hosted.hasUnrecordedEffects {
      hosted.hasUnrecordedEffects = true
      unrecorded.append(hosted)
    }
    if hosted.engine.hasQueuedInput, !hosted.isWaiting {
      hosted.isWaiting = true
      waiting.append(hosted)
    }
  }

  var hasUnrecordedEffects: Bool { !unrecorded.isEmpty }

  /// - Parameter noteProgress: Called with each effect that has started or has produced an event.
  func recordEffects(
    into journal: Journal, _ states: EventCodec<Hosted.State>,
    noteProgress: (EffectOrigin) throws -> Void
  ) throws {
    for hosted in unrecorded {
      let effects = hosted.engine.effects.changesToRecord()
      for origin in effects.ended { try journal.recordInstanceEffectEnd(origin) }
      for effect in effects.started {
        try noteProgress(effect.origin)
        try journal.recordInstanceEffectStart(
          effect.origin, state: states.encode(effect.state),
          progress: effect.lastProgress ?? BootClock.now)
      }
    }
  }

  /// Returns the engine that takes a step or runs an effect of an instance; `nil` if no engine
  /// does.
  func engine(ofInstance id: Int64) -> InstanceEngine<Hosted>? {
    busy.values.first { $0.instance?.id == id }
  }

  /// Starts the effects whose steps have been recorded.
  /// - Parameter release: Called with each instance whose engine may be at rest now.
  func didRecord(release: (Instance<Hosted>) -> Void) {
    guard !unrecorded.isEmpty else { return }
    let engines = unrecorded
    unrecorded = []
    for hosted in engines {
      hosted.hasUnrecordedEffects = false
      hosted.engine.effects.didRecord(
        willStart: { Failpoint.hit(.effectBefore) }, willAnswer: { Failpoint.hit(.effectAfter) })
      if let instance = hosted.instance { release(instance) }
    }
  }
}
