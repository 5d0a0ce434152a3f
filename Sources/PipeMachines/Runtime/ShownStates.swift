import Synchronization

/// What a ``MachineRun`` shows of its machine: the current state, and the states for its readers.
@usableFromInline
struct ShownStates<State: Sendable>: Sendable {
  @usableFromInline var state: State
  private(set) var readers: [StateReader<State>] = [] {
    didSet { links = readers.map(Unmanaged.passUnretained) }
  }
  /// The readers, without a count of their references.
  @usableFromInline var links: [Unmanaged<StateReader<State>>] = []
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

  /// Takes note of a state. Returns the one that it follows, and whether some reader waits or is
  /// full.
  @inlinable
  mutating func enter(_ next: State) -> (former: State, isAwaited: Bool, isFull: Bool) {
    let former = state
    state = next
    var isAwaited = false
    var isFull = false
    for link in links {
      link._withUnsafeGuaranteedRef { reader in
        reader.write(next)
        if reader.isWaiting.load(ordering: .sequentiallyConsistent) { isAwaited = true }
        if reader.hasNoRoom { isFull = true }
      }
    }
    if keepsBacklog { keep(next) }
    return (former, isAwaited, isFull)
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

  /// Makes a reader. The first one that is not late gets the states before it.
  mutating func makeReader(
    isLate: Bool,
    madeRoom: @escaping @Sendable () -> Void,
    ended: @escaping @Sendable (StateReader<State>) -> Void
  ) -> StateReader<State> {
    var states = [state]
    if keepsBacklog && !isLate {
      states = Array(backlog[oldest...] + backlog[..<oldest])
      keepsBacklog = false
      backlog = []
    }
    let reader = StateReader(
      states: states, capacity: Self.capacity, madeRoom: madeRoom, ended: ended)
    if isStopped { reader.finish() } else { readers.append(reader) }
    return reader
  }

  mutating func remove(_ reader: StateReader<State>) { readers.removeAll { $0 === reader } }

  /// Ends the showing; returns whom to tell.
  mutating func stop() -> [StateReader<State>] {
    isStopped = true
    defer { readers = [] }
    return readers
  }
}
