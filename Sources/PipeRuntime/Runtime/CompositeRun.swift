/// Machines that run in this process as one composite: their engines behind one mailbox.
///
/// Whoever puts something into an idle mailbox becomes its drainer and takes steps on its own thread,
/// as with a ``MachineRun``; so there is one step at a time in the whole composite, and what is shown
/// of it is a state that the composite had. A run keeps itself alive until it is finished.
final class CompositeRun: @unchecked Sendable {  // What varies belongs to the drainer.
  typealias Job = @Sendable () -> Void

  private struct Mailbox {
    var jobs = Queue<Job>()
    var isDraining = false
  }

  let composition: Composition
  let name: String
  let shown: Locked<ShownStates<ProductState>>
  private let mailbox = Locked(Mailbox())
  private let stability = Locked(true)
  private let places: [String: Int]
  private let components: [AnyComponent]

  // The drainer's.
  private var hosts: [any ComponentHost] = []
  private var states: ProductState
  private var touched: Set<Int> = []
  private var hasStepped = false
  private(set) var requests: [Request] = []
  private var lastRequest: UInt64 = 0
  private var lastTransaction: UInt64 = 0
  private var mayBeHeld = false
  private var isFinished = false

  /// A synchronized event that was asked for.
  struct Request {
    let id: UInt64
    let event: SynchronizedEvent
    let participants: [Int]
    let waits: Bool
    /// Whether somebody still wants it.
    let isWanted: () -> Bool
    let answer: (SynchronizedReply) -> Void
    var failure: SynchronizedReply?
    /// Its transitions are running.
    var isUnderWay = false
  }

  init(
    _ name: String, _ components: [AnyCompositeComponent], composites: [CompositeDeclaration]
  ) throws(CompositionError) {
    self.name = name
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

// Events.
extension CompositeRun {
  /// Sends to one component.
  func send(
    _ event: any MachineEvent, to place: Int,
    answer: @escaping @Sendable (SendOutcome<any MachineState>) -> Void
  ) {
    post { [self] in
      guard !isFinished else { return answer(.finished) }
      hosts[place].offer(event, answer: answer)
      touch(place)
    }
  }

  /// Who takes part in an event of a composite, all of whom can read it.
  func participants(
    of event: SynchronizedEvent, in composite: String
  ) throws(RoutingError) -> [Int] {
    let vector = try composition.vector(event.name, of: composite)
    return try participants(of: event, vector)
  }

  private func participants(
    of event: SynchronizedEvent, _ vector: SyncVector
  ) throws(RoutingError) -> [Int] {
    var participants: [Int] = []
    for name in vector.participants {
      let place = try place(of: name)
      do throws(SynchronizedEventError) {
        _ = try components[place].read(event)
      } catch {
        throw .noEvent(error, component: name)
      }
      participants.append(place)
    }
    return participants
  }

  /// Asks for a synchronized event; returns a function that ends the waiting, with an answer.
  func ask(
    _ event: SynchronizedEvent, _ participants: [Int], waits: Bool,
    answer: @escaping @Sendable (SynchronizedReply) -> Void
  ) -> @Sendable () -> Void {
    let id = mailbox.withLock { _ in nextRequest() }
    post { [self] in
      begin(
        Request(
          id: id, event: event, participants: participants, waits: waits, isWanted: { true },
          answer: answer))
    }
    return { [self] in post { [self] in giveUp(id) } }
  }

  /// The mailbox's lock guards the count.
  private func nextRequest() -> UInt64 {
    lastRequest += 1
    return lastRequest
  }

  /// An effect of a component has a synchronized event: it waits until all take it.
  func raise(
    _ event: SynchronizedEvent, of place: Int, isWanted: @escaping () -> Bool,
    answer: @escaping (Bool) -> Void
  ) {
    let vectors = composition.vectors(of: hosts[place].name, event: event.name)
    // Where several composites synchronize it, an effect cannot say which one it means.
    guard vectors.count == 1, let participants = try? participants(of: event, vectors[0])
    else { return answer(true) }
    let id = mailbox.withLock { _ in nextRequest() }
    begin(
      Request(
        id: id, event: event, participants: participants, waits: true, isWanted: isWanted,
        answer: { reply in answer(reply.isCommitted) }))
  }

  private func begin(_ request: Request) {
    guard !isFinished else { return request.answer(.unavailable(name)) }
    requests.append(request)
    attempt(request.id)
  }

  /// Tries all waiting requests once, in the order in which they came.
  private func retry() {
    for id in requests.map(\.id) { attempt(id) }
  }

  private func attempt(_ id: UInt64) {
    guard let place = requests.firstIndex(where: { $0.id == id }), !requests[place].isUnderWay
    else { return }
    let request = requests[place]
    guard request.isWanted() else {
      requests.remove(at: place)
      return request.answer(.unavailable(name))
    }
    var withheld: [Withholding] = []
    var busy: [String] = []
    var suspended: [(Int, @Sendable () async -> any Sendable)] = []
    for participant in request.participants {
      let host = hosts[participant]
      switch host.prepare(request.event) {
      case .ready: continue
      case .suspended(let run): suspended.append((participant, run))
      case .busy: busy.append(host.name)
      case .withheld(let refusal):
        withheld.append(
          Withholding(
            participant: host.name, state: ComponentState(host.state, isCompared: false).json,
            version: host.version, reason: refusal))
      }
    }
    if withheld.isEmpty && busy.isEmpty {
      if suspended.isEmpty { commit(id) } else { run(suspended, for: id) }
      return
    }
    let failure: SynchronizedReply = withheld.isEmpty ? .busy(busy) : .refused(withheld)
    if request.waits {
      requests[place].failure = failure
    } else {
      requests.remove(at: place)
      request.answer(failure)
    }
  }

  /// All participants are prepared: they move, the composite shows it, then they enter.
  private func commit(_ id: UInt64) {
    guard let place = requests.firstIndex(where: { $0.id == id }) else { return }
    let request = requests.remove(at: place)
    for participant in request.participants {
      hosts[participant].isFrozen = false
      hosts[participant].adopt()
    }
    publish()
    for participant in request.participants { hosts[participant].enter() }
    touched.formUnion(request.participants)
    hasStepped = true
    lastTransaction += 1
    let versions = request.participants.map { (hosts[$0].name, hosts[$0].version) }
    request.answer(
      .committed(
        TransactionID(epoch: 1, sequence: lastTransaction),
        versions: Dictionary(uniqueKeysWithValues: versions)))
  }

  /// Runs asynchronous transitions, while the participants take nothing else.
  private func run(
    _ transitions: [(Int, @Sendable () async -> any Sendable)], for id: UInt64
  ) {
    guard let place = requests.firstIndex(where: { $0.id == id }) else { return }
    requests[place].isUnderWay = true
    for participant in requests[place].participants { hosts[participant].isFrozen = true }
    Task { [self] in
      var next: [(Int, any Sendable)] = []
      for (participant, run) in transitions { next.append((participant, await run())) }
      post { [self, next] in
        guard !isFinished else { return }
        for (participant, state) in next { hosts[participant].settle(state) }
        commit(id)
      }
    }
  }

  /// The time of a request is up.
  private func giveUp(_ id: UInt64) {
    guard let place = requests.firstIndex(where: { $0.id == id }), !requests[place].isUnderWay
    else { return }
    let request = requests.remove(at: place)
    request.answer(request.failure ?? .busy(request.participants.map { hosts[$0].name }))
  }
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

  private func publish() {
    let states = states
    let (_, isAwaited, isFull) = shown.withLock { $0.enter(states) }
    if isFull { mayBeHeld = true }
    if isAwaited {
      let waiting = shown.withLock { shown in
        shown.readers.filter { $0.isWaiting.load(ordering: .relaxed) }
      }
      for reader in waiting { reader.wake() }
    }
  }

  /// Whether some reader lags as far behind as it may. If so, it will say when it has room.
  var isHeld: Bool {
    guard mayBeHeld else { return false }
    mayBeHeld = shown.withLock { shown in shown.readers.count { $0.isFull } > 0 }
    return mayBeHeld
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
      for request in requests { request.answer(.unavailable(name)) }
      requests = []
      hosts = []
      for reader in shown.withLock({ $0.stop() }) { reader.finish() }
    }
  }
}
