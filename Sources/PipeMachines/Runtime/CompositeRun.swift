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
