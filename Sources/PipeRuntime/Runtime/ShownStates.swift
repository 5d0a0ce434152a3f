import Synchronization

/// What a ``MachineRun`` shows of its machine: the current state, and the states for its readers.
@usableFromInline
struct ShownStates<State: DSLCompatible>: Sendable {
  /// What a reader needs from the writer after a state was entered.
  @usableFromInline
  enum News { case none, waiting, full }

  @usableFromInline var state: State
  @usableFromInline var readers: [StateReader<State>] = []
  /// The last states, for the first reader; without use once it has come.
  @usableFromInline var backlog: [State] = []
  /// Where the oldest state of a full backlog is.
  @usableFromInline var oldest = 0
  @usableFromInline var keepsBacklog = true
  private var isStopped = false

  /// How many states an iterator may lag behind. Unit: states.
  @inlinable
  static var capacity: Int { 1024 }

  @usableFromInline
  init(_ state: State) { self.state = state }

  /// Takes note of a state, and gives back the one that it follows.
  @inlinable
  mutating func enter(_ next: State) -> (former: State, news: News) {
    let former = state
    state = next
    var news = News.none
    for index in readers.indices {
      let reader = readers[index]
      reader.write(next)
      if reader.isWaiting.load(ordering: .sequentiallyConsistent), news == .none { news = .waiting }
      if reader.hasNoRoom { news = .full }
    }
    if keepsBacklog { keep(next) }
    return (former, news)
  }

  @inlinable
  mutating func keep(_ state: State) {
    if backlog.count < Self.capacity {
      backlog.append(state)
    } else {
      backlog[oldest] = state
      oldest = (oldest + 1) % Self.capacity
    }
  }

  mutating func makeReader(
    madeRoom: @escaping @Sendable () -> Void,
    ended: @escaping @Sendable (StateReader<State>) -> Void
  ) -> StateReader<State> {
    let states = keepsBacklog ? Array(backlog[oldest...] + backlog[..<oldest]) : [state]
    keepsBacklog = false
    backlog = []
    let reader = StateReader(
      states: states, capacity: Self.capacity, madeRoom: madeRoom, ended: ended)
    if isStopped { reader.finish() } else { readers.append(reader) }
    return reader
  }

  /// Ends the showing; returns whom to tell.
  mutating func stop() -> [StateReader<State>] {
    isStopped = true
    defer { readers = [] }
    return readers
  }
}
