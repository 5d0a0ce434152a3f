import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// The locks of a keyed node's instances that take part in synchronized events.
///
/// The inputs of a locked instance wait in the order of their arrival. All other instances
/// continue.
final class InstanceLocks<Hosted: Machine>: ParticipatingInstances {
  typealias Input = MachineInbox<Hosted.Event, ClientInput<Hosted.Event>>.Input

  /// A step that an instance takes if the coordinator commits the step.
  private struct Step {
    let event: Hosted.Event
    /// The composite that the event was sent to.
    let composite: String
    let next: TransitionTarget<Hosted.State>
  }

  /// A locked instance. The lock keeps the instance in memory, even if the instance is not created
  /// yet.
  private struct Lock {
    let instance: Instance<Hosted>
    /// The step to take; `nil` if an earlier process has evaluated the event.
    let step: Step?
  }

  /// The inputs that wait for an instance.
  private struct Waiting {
    var inputs = Queue<Input>()
    /// The number of requests among the inputs.
    var requests = 0
  }

  private let core: MachineCore<Hosted>
  private let outlets: MachineOutlets
  private let table: InstanceTable<Hosted>
  private let engines: InstanceEngines<Hosted>
  private let keys: InstanceKeys<Hosted>
  private(set) var participant: KeyedParticipant?
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var locks: [InstanceKey: Lock] = [:]
  /// The instance whose event was evaluated last.
  @exclusivity(unchecked)
  private var evaluated: Lock?
  @exclusivity(unchecked)
  private var waiting: [InstanceKey: Waiting] = [:]
  /// The instances that were unlocked while inputs waited.
  @exclusivity(unchecked)
  private var ready = Queue<InstanceKey>()

  /// The maximum number of requests that wait for one instance. Unit: requests.
  private static var requestLimit: Int { 64 }

  init(
    _ core: MachineCore<Hosted>, _ outlets: MachineOutlets, _ table: InstanceTable<Hosted>,
    _ engines: InstanceEngines<Hosted>, _ keys: InstanceKeys<Hosted>
  ) {
    self.keys = keys
    self.core = core
    self.outlets = outlets
    self.table = table
    self.engines = engines
  }

  private var content: KeyedContent<Hosted>? { engines.owner.content }

  // MARK: Locks from an earlier process

  /// Locks the instances that an earlier process has prepared.
  @export(interface)
  func attach(to services: NodeServices, _ configuration: NodeConfiguration) throws {
    let recorded = try core.journal?.preparedInstances() ?? []
    guard let configuration = configuration.participant else {
      guard let (key, step) = recorded.first else { return }
      return core.log.warning(
        "the node is no longer part of a composite, but \(recorded.count) of its instances, such as "
          + "'\(key)', may have promised to take synchronized events, such as \(step.transaction)")
    }
    var prepared: [(key: InstanceKey, step: PreparedStep, version: UInt64)] = []
    var instances: [InstanceKey: Instance<Hosted>] = [:]
    for (key, step) in recorded {
      let instance = try table.find(key) ?? engines.makeInstance(key)
      instances[key] = instance
      prepared.append((key, step, instance.version))
    }
    core.participation = configuration
    let participant = KeyedParticipant(
      configuration, instances: self, prepared: prepared,
      restored: core.journal?.contents?.participant, isRecorded: core.journal != nil,
      services: services, log: core.log)
    self.participant = participant
    for key in participant.lockedKeys {
      guard let instance = instances[key] else { continue }
      instance.isLocked = true
      locks[key] = Lock(instance: instance, step: nil)
    }
  }

  // MARK: Waiting inputs

  /// Whether the inputs of an instance must wait.
  func mustWait(_ key: InstanceKey) -> Bool {
    if locks.isEmpty, waiting.isEmpty { return false }
    return locks[key] != nil || waiting[key] != nil
  }

  /// Lets an input wait until the instance is unlocked.
  /// - Returns: `false` if too many requests wait for the instance.
  func wait(_ input: Input, for key: InstanceKey) -> Bool {
    if case .request = input {
      guard waiting[key]?.requests ?? 0 < Self.requestLimit else { return false }
      waiting[key, default: Waiting()].requests += 1
    }
    waiting[key, default: Waiting()].inputs.append(input)
    return true
  }

  /// Whether any waiting input can be taken now.
  var hasReadyInput: Bool { !ready.isEmpty }

  func hasWaitingInput(_ key: InstanceKey) -> Bool { locks[key] == nil && waiting[key] != nil }

  /// Removes and returns the next input of an instance that is unlocked.
  func next() -> (input: Input, key: InstanceKey)? {
    while let key = ready.first {
      // If the instance is locked again, its inputs become ready when it is unlocked.
      guard locks[key] == nil, let input = waiting[key]?.inputs.popFirst() else {
        _ = ready.popFirst()
        continue
      }
      if case .request = input { waiting[key]?.requests -= 1 }
      if waiting[key]?.inputs.isEmpty == true { waiting[key] = nil }
      return (input, key)
    }
    return nil
  }

  /// Removes all waiting inputs, because the node stops. Returns the requests among them.
  func stop() -> [ClientInput<Hosted.Event>] {
    participant?.stop()
    let inputs = waiting.values.flatMap { waiting in
      var queue = waiting.inputs
      return queue.removeAll()
    }
    waiting = [:]
    return inputs.compactMap { if case .request(let request) = $0 { request } else { nil } }
  }

  // MARK: Synchronized events

  func key(ofSynchronized event: [UInt8]) -> Result<InstanceKey, InstanceKeyError> {
    keys.key(ofEvent: TransactionBody(event)?.event ?? [])
  }

  @export(interface)
  func evaluate(
    _ bytes: [UInt8], of key: InstanceKey
  ) throws(ParticipantRefusal) -> ParticipantAnswer {
    guard core.engine.canTakeInput, !outlets.isFull else { throw .busy }
    guard let instance = find(key) else { throw .busy }
    guard let body = TransactionBody(bytes) else { throw refused(.noTransition, instance) }
    if let problem = keys.problem(withKey: key) { throw refused(.thrown(problem), instance) }
    let event: Hosted.Event
    do { event = try core.events.decode(body.event) } catch {
      core.log.warning("composite '\(body.composite)': a synchronized event was refused: \(error)")
      throw refused(.noTransition, instance)
    }
    let next: TransitionTarget<Hosted.State>
    switch engines.machine(of: key).step(instance.state, event) {
    case .next(let state): next = TransitionTarget(state)
    case .stays(let state): next = TransitionTarget(state, isInternal: true)
    // The commit is recorded as a step of each participant, so even an ignored event counts as a
    // step.
    case .ignored: next = TransitionTarget(instance.state, isInternal: true)
    case .refused(let refusal): throw refused(refusal, instance)
    case .suspended: throw refused(.asynchronous, instance)
    }
    guard let state = try? core.states.encode(next.state) else { throw .busy }
    guard state.count <= StateSizeLimit.maximumByteCount else {
      throw refused(.stateTooLarge, instance)
    }
    evaluated = Lock(
      instance: instance, step: Step(event: event, composite: body.composite, next: next))
    return .moves(
      ParticipantMove(version: instance.version + 1, state: state, isInternal: next.isInternal))
  }

  /// Returns the instance, or a new instance in its initial state; `nil` if the journal cannot be
  /// read, which ends the node.
  private func find(_ key: InstanceKey) -> Instance<Hosted>? {
    do { return try locks[key]?.instance ?? table.find(key) ?? engines.makeInstance(key) } catch {
      core.onEnd?("\(error)")
      return nil
    }
  }

  private func refused(_ refusal: Refusal, _ instance: Instance<Hosted>) -> ParticipantRefusal {
    .refused(
      refusal, version: instance.version,
      state: (try? core.states.encode(instance.state)) ?? Array("null".utf8))
  }

  func lock(_ key: InstanceKey) {
    guard let lock = evaluated.take(), lock.instance.key == key else { return }
    lock.instance.isLocked = true
    locks[key] = lock
    // The engine of the locked instance waits, but must not block the other instances.
    if let engine = lock.instance.engine?.engine, core.engine === engine {
      core.engine = engines.idle
    }
  }

  func unlock(_ key: InstanceKey) {
    guard let lock = locks.removeValue(forKey: key) else { return }
    lock.instance.isLocked = false
    if waiting[key] != nil { ready.append(key) }
  }

  @export(interface)
  func enter(_ prepared: PreparedStep, of key: InstanceKey) {
    guard let lock = locks[key], let content else { return }
    if let step = lock.step {
      return content.take(
        step.event, of: lock.instance, leadingTo: step.next, cause: step.composite)
    }
    // An earlier process prepared the step.
    let body = TransactionBody(prepared.event)
    do {
      let next = try Hosted.decodeState(
        prepared.move.state, schema: prepared.schema, by: core.states)
      content.take(
        try body.map {
          try Hosted.decodeEvent($0.event, schema: prepared.schema, by: core.events)
        }, of: lock.instance,
        leadingTo: TransitionTarget(next, isInternal: prepared.move.isInternal),
        cause: body?.composite ?? "synchronized")
    } catch {
      core.onEnd?(
        "synchronized event \(prepared.transaction) of instance '\(key)' is committed, but the node "
          + "cannot apply the step: \(error)")
    }
  }

  func inDoubtChanged() { content?.onEntry?(false) }
}
