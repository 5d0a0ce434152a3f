import PipeSupport

/// Machines that run in this process as one composite: their engines behind one mailbox.
///
/// Whoever puts something into an idle mailbox becomes its drainer and takes steps on its own thread,
/// as with a ``MachineRun``; so there is one step at a time in the whole composite, and what is shown
/// of it is a state that the composite had. A run keeps itself alive until it is finished.
final class CompositeRun: @unchecked Sendable {  // What varies belongs to the drainer.
  typealias Job = @Sendable () -> Void

  struct Mailbox {
    var jobs = Queue<Job>()
    var isDraining = false
  }

  let composition: Composition
  let name: String
  let shown: Locked<ShownStates<ProductState>>
  let mailbox = Locked(Mailbox())
  private let stability = Locked(true)
  private let places: [String: Int]
  let components: [AnyComponent]

  /// Of the time limits of its transitions.
  let clock = EffectClock.current

  // The drainer's.
  var hosts: [any ComponentHost] = []
  var states: ProductState
  var touched: Set<Int> = []
  var hasStepped = false
  var requests: [Request] = []
  var lastRequest: UInt64 = 0
  var lastEvaluation: UInt64 = 0
  var lastTransaction: UInt64 = 0
  var mayHaveToWait = false
  let watch: ReaderWatch
  var isFinished = false

  /// A synchronized event that was asked for.
  struct Request {
    let id: UInt64
    let event: SynchronizedEvent
    let participants: [Int]
    /// Whether it is tried again where an attempt comes to nothing.
    var waits: Bool
    /// Whether somebody still wants it.
    let isWanted: () -> Bool
    let answer: (SynchronizedReply) -> Void
    var failure: SynchronizedReply?
    /// Its transitions, while they are running.
    var evaluation: Evaluation?

    /// Whether its last attempt found somebody busy.
    var isHeldUp: Bool { if case .busy? = failure { true } else { false } }
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
    shown = Locked(ShownStates(initial))
    places = Dictionary(
      uniqueKeysWithValues: components.enumerated().map { ($0.element.component.name, $0.offset) })
    for (place, component) in components.enumerated() {
      let events = composition.vectors.filter {
        $0.participants.contains(component.component.name)
      }.map(\.event)
      hosts.append(component.makeHost(self, place, Set(events)))
    }
    // The first of the states that a reader gets.
    publish()
    post { [self] in
      for host in hosts { host.start() }
      touched = Set(hosts.indices)
      hasStepped = true
    }
  }

  func place(of component: String) throws(RoutingError) -> Int {
    guard let place = places[component] else { throw .unknownComponent(component) }
    return place
  }

  var isStable: Bool { stability.withLock { $0 } }
}

// The mailbox.
extension CompositeRun {
  /// Has the drainer do something, who may be the caller.
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

  /// Does up to `budget` jobs, then leaves the rest to another task: no sender is kept for long.
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
      // Said before the next caller can become the drainer.
      let isAtRest = requests.isEmpty && hosts.allSatisfy(\.isAtRest)
      let isDone = mailbox.withLock { mailbox in
        mailbox.isDraining = !mailbox.jobs.isEmpty
        if !mailbox.isDraining { stability.withLock { $0 = isAtRest } }
        return !mailbox.isDraining
      }
      if isDone { return }
    }
  }

  /// Has the components take what waits for them, and tries the synchronized events again that may
  /// be enabled now; returns whether there may be more to do.
  private func advance() -> Bool {
    let now = touched
    touched = []
    for place in now.sorted() where hosts.indices.contains(place) {
      if hosts[place].pump() { hasStepped = true }
    }
    if hasStepped {
      hasStepped = false
      retry()
    }
    return !touched.isEmpty || hasStepped
  }

  /// A component may have something to take.
  func touch(_ place: Int) { touched.insert(place) }

  /// Some component has taken a step.
  func noteStep() { hasStepped = true }
}

// Showing.
extension CompositeRun {
  /// Keeps the state of a component that moves with others; ``publish()`` follows.
  func keep(_ state: some MachineState, at place: Int) {
    states.components[place] = ComponentState(state, isCompared: false)
  }

  /// Shows that one component has entered a state.
  func show(_ state: some MachineState, at place: Int) {
    keep(state, at: place)
    // The initial states are entered one after the other, and are there from the beginning.
    if hosts[place].version > 0 { publish() }
  }

  func publish() {
    let states = states
    let (_, isAwaited, isFull) = shown.withLock { $0.enter(states) }
    if isFull { mayHaveToWait = true }
    if isAwaited {
      let waiting = shown.withLock { shown in
        shown.readers.filter { $0.isWaiting.load(ordering: .relaxed) }
      }
      for reader in waiting { reader.wake() }
    }
  }

  /// Whether some reader lags as far behind as it may. If so, it will say when it has room.
  var mustWait: Bool {
    guard mayHaveToWait else { return false }
    mayHaveToWait = shown.withLock { shown in shown.readers.count { $0.isFull } > 0 }
    if mayHaveToWait, !watch.hasBegun { watch.begin { [self] in shown.withLock(\.lag) } }
    return mayHaveToWait
  }

  private func wakeAll() {
    post(inTask: true) { [self] in
      touched = Set(hosts.indices)
      hasStepped = true
    }
  }

  func addReader() -> StateReaderHandle<ProductState> {
    let reader = shown.withLock { shown in
      shown.makeReader(
        isLate: false, madeRoom: { [self] in wakeAll() },
        ended: { [self] reader in
          self.shown.withLock { $0.remove(reader) }
          wakeAll()
        })
    }
    return StateReaderHandle(reader)
  }

  /// The next state for a reader; `nil` at the end or on cancellation.
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
      for reader in shown.withLock({ $0.stop() }) { reader.finish() }
    }
  }
}

/// One machine of a running composite, whatever its types. Its ``CompositeRun``'s drainer calls it.
protocol ComponentHost: AnyObject {
  var name: String { get }
  var state: any MachineState { get }
  var version: UInt64 { get }
  /// Whether it may take an input now.
  var isReady: Bool { get }
  /// Whether nothing is under way in it, and nothing waits for it.
  var isAtRest: Bool { get }
  /// Takes part in a synchronized event whose transitions run: keeps all other inputs.
  var isFrozen: Bool { get set }

  /// Enters the initial state.
  func start()
  /// Ends effects and lets all go that wait for it.
  func stop()
  /// Queues an event that was sent to it alone.
  /// - Parameter sender: The step that waits for the answer.
  func offer(
    _ event: any MachineEvent, by sender: AwaitedStep?,
    answer: @escaping (SendOutcome<any MachineState>) -> Void)
  /// Whether it is in a step that waits for this one, or is this one.
  func isInStep(awaiting step: AwaitedStep) -> Bool
  /// Takes what waits for it, a bounded number of inputs; returns whether it has stepped.
  func pump() -> Bool

  /// Asks whether it would take an event, and keeps the answer for ``adopt()``.
  /// - Returns: `nil` where it is busy: a transition of its own is running, or something that it sends
  ///   into is full. An asynchronous transition has a time limit.
  func prepare(_ event: SynchronizedEvent) -> Reduction<any Sendable>?
  /// A suspended preparation is run; ``returned()`` follows, once, however late that is.
  func begin()
  func returned()
  /// Gives the state that a suspended preparation has led to.
  func complete(with state: any Sendable)
  /// Forgets the answer: the machine stands where it stood.
  func abandon()
  /// Changes to the prepared state.
  func adopt()
  /// Enters the state that it has changed to.
  func enter()
}

/// A machine that a composite runs: its name, its behaviour, its effects and pipes.
public struct CompositeComponent<State: MachineState, Event: MachineEvent>: Sendable {
  /// The name, by which composites refer to it.
  public let name: String
  let erased: AnyCompositeComponent

  /// Names a machine.
  public init<Output>(
    _ name: String, stateMachine: StateMachine<State, Event, Output>,
    runtime: Runtime<State, Event, Output> = Runtime()
  ) {
    self.name = name
    erased = AnyCompositeComponent(
      component: AnyComponent(Component(name, machine: stateMachine)),
      makeHost: { run, place, synchronized in
        MachineHost(
          name: name, place: place, machine: stateMachine, runtime: runtime,
          synchronized: synchronized, run: run)
      })
  }
}

/// A machine that a composite runs, whose types are not known where it is used.
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

  /// Forgets the types of a component.
  public init<State, Event>(_ component: CompositeComponent<State, Event>) {
    self = component.erased
  }
}
