/// What waits for a ``MachineRun`` to take it, and what it shows of itself. Guarded by its lock.
struct Mailbox<State: DSLCompatible, Event: DSLCompatible> {
  typealias Answer = CheckedContinuation<SendOutcome<State>, Never>

  /// From the engine's own tasks; taken at any time.
  var posts = FIFO<EngineInput<State, Event>>()
  /// From outside; taken when the engine can.
  var sends = FIFO<(event: Event, answer: Answer)>()
  /// A pipe has an event, also taken when the engine can.
  var hasReceived = false
  private var favoursSends = false
  /// Somebody is draining, and will see whatever is put in here.
  private var isDraining = true
  var isFinished = false
  private(set) var isStopped = false

  var state: State
  var readers: [StateReader<State>] = []
  /// The states for the first reader; `nil` once it has come.
  var backlog: FIFO<State>? = FIFO()

  init(state: State) { self.state = state }

  /// Nothing waits.
  var isIdle: Bool { posts.isEmpty && sends.isEmpty && !hasReceived && !isFinished }

  /// Makes the caller the drainer, if there is none.
  mutating func begin() -> Bool {
    defer { isDraining = true }
    return !isDraining
  }

  enum Next {
    case post(EngineInput<State, Event>)
    case send(Event, Answer)
    case receive
    case stop
    /// Somebody else is to go on draining.
    case handOver
    /// The caller has ceased to be the drainer.
    case idle
  }

  /// What the drainer has to do next.
  mutating func next(takesInput: Bool, isSpent: Bool) -> Next {
    if isFinished && !isStopped {
      isStopped = true
      hasReceived = false
      return .stop
    }
    let canSend = !sends.isEmpty && (takesInput || isStopped)
    let canReceive = hasReceived && takesInput && !isStopped
    guard !posts.isEmpty || canSend || canReceive else {
      isDraining = false
      return .idle
    }
    if isSpent { return .handOver }
    if let post = posts.popFirst() { return .post(post) }
    // By turns, so that neither a busy pipe nor a busy sender keeps the other waiting.
    favoursSends.toggle()
    if canReceive && !(canSend && favoursSends) {
      hasReceived = false
      return .receive
    }
    let send = sends.popFirst()!
    return .send(send.event, send.answer)
  }
}
