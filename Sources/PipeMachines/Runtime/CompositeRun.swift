import PipeSupport

/// Runs machines in this process as one composite. Their engines share one mailbox.
///
/// A caller that adds a job to an idle mailbox becomes the drainer: it runs the queued jobs on its
/// own thread, and so takes the steps, as with a ``MachineRun``. Because there is at most one
/// drainer, the composite takes one step at a time, and each published state is a state that the
/// composite was in.
///
/// A run keeps itself alive until ``finish()`` is called.
final class CompositeRun: @unchecked Sendable {  // The drainer owns the mutable state.
  typealias Job = @Sendable () -> Void

  struct Mailbox {
    var jobs = Queue<Job>()
    var isDraining = false
  }

  let composition: Composition
  let name: String
  let publishedStates: Locked<PublishedStates<ProductState>>
  let mailbox = Locked(Mailbox())
  private let stability = Locked(true)
  private let positionsByName: [String: Int]
  let components: [AnyComponent]

  /// The clock for the time limits of transitions.
  let clock = EffectClock.current

  // Only the drainer uses the following properties.
  var hosts: [any ComponentHost] = []
  var states: ProductState
  var scheduledPumps: Set<Int> = []
  var hasStepped = false
  var requests: [Request] = []
  var lastRequestID: UInt64 = 0
  var lastEvaluationNumber: UInt64 = 0
  var lastTransaction: UInt64 = 0
  var mayHaveToWait = false
  let watch: ReaderWatch
  var isFinished = false

  /// A request for a synchronized event.
  struct Request {
    let id: UInt64
    let event: SynchronizedEvent
    let participants: [Int]
    /// Whether the request is retried after a failed attempt.
    var waitsUntilEnabled: Bool
    /// Returns whether the requester still needs the event.
    let isWanted: () -> Bool
    let answer: (SynchronizedReply) -> Void
    var failure: SynchronizedReply?
    /// The running transitions of the current attempt; `nil` if no transition is running.
    var evaluation: Evaluation?

    /// Whether the last attempt failed because a participant was busy.
    var isBlockedByBusyParticipant: Bool { if case .busy? = failure { true } else { false } }
  }

  init(
    _ name: String, _ components: [AnyCompositeComponent], composites: [CompositeDeclaration]
  ) throws(CompositionError) {
    self.name = name
    watch = ReaderWatch { "composite '\(name)'" }
    let product = try Product(components.map(\.component), composites: composites)
    composition = product.composition
    self.components = product.components
    let initial = ProductState(components.map(\.component.initial))
    states = initial
    publishedStates = Locked(PublishedStates(initial))
    positionsByName = Dictionary(
      uniqueKeysWithValues: components.enumerated().map { ($0.element.component.name, $0.offset) })
    for (position, component) in components.enumerated() {
      let events = composition.vectors.filter {
        $0.participants.contains(component.component.name)
      }.map(\.event)
      hosts.append(component.makeHost(self, position, Set(events)))
    }
    // Publishes the initial state, with which readers begin.
    publish()
    post { [self] in
      for host in hosts { host.start() }
      scheduledPumps = Set(hosts.indices)
      hasStepped = true
    }
  }

  func position(of component: String) throws(RoutingError) -> Int {
    guard let position = positionsByName[component] else { throw .unknownComponent(component) }
    return position
  }

  var isStable: Bool { stability.withLock { $0 } }
}

// The mailbox of the composite.
extension CompositeRun {
  /// Queues a job for the drainer, which runs the queued jobs. If there is no drainer, the caller
  /// or a new task becomes the drainer.
  func post(inTask: Bool = false, _ job: @escaping Job) {
    let begins = mailbox.withLock { mailbox in
      stability.withLock { $0 = false }
      mailbox.jobs.append(job)
      defer { mailbox.isDraining = true }
      return !mailbox.isDraining
    }
    guard begins else { return }
    if inTask { Task { drain() } } else { drain() }
  }

  /// Runs up to `budget` jobs. Leaves further jobs to another task, so that no sender is delayed
  /// for long.
  private func drain(budget: Int = 256) {
    var left = budget
    while true {
      if left == 0 {
        Task { drain() }
        return
      }
      left -= 1
      let job = mailbox.withLock { $0.jobs.popFirst() }
      job?()
      if advance() || job != nil { continue }
      // Updates `stability` before another caller can become the drainer.
      let isAtRest = requests.isEmpty && hosts.allSatisfy(\.isAtRest)
      let isDone = mailbox.withLock { mailbox in
        mailbox.isDraining = !mailbox.jobs.isEmpty
        if !mailbox.isDraining { stability.withLock { $0 = isAtRest } }
        return !mailbox.isDraining
      }
      if isDone { return }
    }
  }

  /// Lets the components process their queued input. Then retries the synchronized events that may
  /// have become enabled. Returns whether further input may be queued.
  private func advance() -> Bool {
    let now = scheduledPumps
    scheduledPumps = []
    for position in now.sorted() where hosts.indices.contains(position) {
      if hosts[position].pump() { hasStepped = true }
    }
    if hasStepped {
      hasStepped = false
      retry()
    }
    return !scheduledPumps.isEmpty || hasStepped
  }

  /// Records that a component may have input to process.
  func schedulePump(_ position: Int) { scheduledPumps.insert(position) }

  /// Records that a component has taken a step.
  func noteStep() { hasStepped = true }
}

// Publishing states.
extension CompositeRun {
  /// Stores the new state of a component that changes its state together with other components. The
  /// caller must then call ``publish()``.
  func keep(_ state: some MachineState, at position: Int) {
    states.components[position] = ComponentState(state, isCompared: false)
  }

  /// Publishes the composite's state after one component has entered a state.
  func publishState(_ state: some MachineState, at position: Int) {
    keep(state, at: position)
    // The components enter their initial states one by one, but the composite has already published
    // these states.
    if hosts[position].version > 0 { publish() }
  }

  func publish() {
    let states = states
    let (_, isAwaited, isFull) = publishedStates.withLock { $0.publish(states) }
    if isFull { mayHaveToWait = true }
    if isAwaited {
      let waiting = publishedStates.withLock { publishedStates in
        publishedStates.readers.filter { $0.isWaiting.load(ordering: .relaxed) }
      }
      for reader in waiting { reader.wake() }
    }
  }

  /// Whether a reader has reached the maximum lag. Such a reader wakes the composite as soon as the
  /// reader has capacity again.
  var mustWait: Bool {
    guard mayHaveToWait else { return false }
    mayHaveToWait = publishedStates.withLock { publishedStates in
      publishedStates.readers.count { $0.isFull } > 0
    }
    if mayHaveToWait, !watch.hasBegun {
      watch.begin { [self] in publishedStates.withLock(\.readCountsOfFullReaders) }
    }
    return mayHaveToWait
  }

  private func wakeAll() {
    post(inTask: true) { [self] in
      scheduledPumps = Set(hosts.indices)
      hasStepped = true
    }
  }

  func addReader() -> StateReaderHandle<ProductState> {
    let reader = publishedStates.withLock { publishedStates in
      publishedStates.makeReader(
        skipsBacklog: false, signalCapacity: { [self] in wakeAll() },
        ended: { [self] reader in
          self.publishedStates.withLock { $0.remove(reader) }
          wakeAll()
        })
    }
    return StateReaderHandle(reader)
  }

  /// Returns the next state for a reader, or `nil` at the end of the run or on cancellation.
  nonisolated(nonsending)
    func nextState(_ reader: StateReader<ProductState>) async -> ProductState?
  {
    if let state = reader.readNow() { return state }
    return await withTaskCancellationHandler {
      await reader.readLater()
    } onCancel: {
      reader.end()
    }
  }

  func finish() {
    post { [self] in
      guard !isFinished else { return }
      isFinished = true
      for host in hosts { host.stop() }
      for request in requests {
        for task in request.evaluation?.tasks ?? [] { task.cancel() }
        request.answer(.unavailable(name))
      }
      requests = []
      hosts = []
      for reader in publishedStates.withLock({ $0.stop() }) { reader.finish() }
    }
  }
}

/// One machine of a running composite, with its types erased. Only the drainer of the machine's
/// ``CompositeRun`` calls these functions.
protocol ComponentHost: AnyObject {
  var name: String { get }
  var state: any MachineState { get }
  var version: UInt64 { get }
  /// Whether the machine can process an input now.
  var isReady: Bool { get }
  /// Whether nothing is running in the machine and nothing is queued for it.
  var isAtRest: Bool { get }
  /// Whether the machine takes part in a synchronized event whose transitions are running. While
  /// this property is `true`, all other input stays queued.
  var isFrozen: Bool { get set }

  /// Enters the initial state.
  func start()
  /// Ends the effects, and answers all callers that wait for the machine.
  func stop()
  /// Queues an event that was sent to this machine alone.
  /// - Parameter sender: The step that waits for the answer.
  func offer(
    _ event: any MachineEvent, by sender: PendingStep?,
    answer: @escaping (SendOutcome<any MachineState>) -> Void)
  /// Returns whether the machine's current step is `step`, or waits for `step`.
  func isInStep(awaiting step: PendingStep) -> Bool
  /// Processes a bounded number of queued inputs. Returns whether the machine has taken a step.
  func pump() -> Bool

  /// Determines whether the machine would accept an event, and stores the result for ``adopt()``.
  /// - Returns: `nil` if the machine is busy, because one of its transitions is running or a pipe
  ///   that it sends into is full. A suspended transition in the result always has a time limit.
  func prepare(_ event: SynchronizedEvent) -> Reduction<any Sendable>?
  /// Records that the asynchronous transition of a prepared event has begun. When the transition
  /// returns, the caller calls ``returned()``, exactly once and possibly much later.
  func begin()
  func returned()
  /// Completes a preparation with the state that its asynchronous transition has produced.
  func complete(with target: TransitionTarget<any Sendable>)
  /// Discards the prepared result. The machine keeps its state.
  func abandon()
  /// Changes to the prepared state.
  func adopt()
  /// Enters the state that the machine has changed to.
  func enter()
}

/// A machine that a composite runs, with its name, behaviour, effects and pipes.
public struct CompositeComponent<State: MachineState, Event: MachineEvent>: Sendable {
  /// The name by which composites refer to the machine.
  public let name: String
  let erased: AnyCompositeComponent

  /// Makes a component from a machine and its name.
  public init<Output>(
    _ name: String, stateMachine: StateMachine<State, Event, Output>,
    runtime: Runtime<State, Event, Output> = Runtime()
  ) {
    self.name = name
    erased = AnyCompositeComponent(
      component: AnyComponent(Component(name, machine: stateMachine)),
      makeHost: { run, position, synchronized in
        MachineHost(
          name: name, position: position, machine: stateMachine, runtime: runtime,
          synchronized: synchronized, run: run)
      })
  }
}

/// A machine that a composite runs, with its types erased.
public struct AnyCompositeComponent: Sendable {
  let component: AnyComponent
  let makeHost: @Sendable (CompositeRun, Int, _ synchronized: Set<String>) -> any ComponentHost

  init(
    component: AnyComponent,
    makeHost: @escaping @Sendable (CompositeRun, Int, Set<String>) -> any ComponentHost
  ) {
    self.component = component
    self.makeHost = makeHost
  }

  /// Erases the types of a component.
  public init<State, Event>(_ component: CompositeComponent<State, Event>) {
    self = component.erased
  }
}
