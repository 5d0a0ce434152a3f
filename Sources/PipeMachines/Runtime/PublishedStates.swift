import Synchronization

/// The published states of a ``MachineRun``: the current state, and the states that its readers
/// have not read yet.
@usableFromInline
struct PublishedStates<State: Sendable>: Sendable {
  @usableFromInline var state: State
  private(set) var readers: [StateReader<State>] = [] {
    didSet { unmanagedReaders = readers.map(Unmanaged.passUnretained) }
  }
  /// Unretained references to the readers.
  @usableFromInline var unmanagedReaders: [Unmanaged<StateReader<State>>] = []
  /// The most recent states, for the first reader. Not used after the first reader is made.
  @usableFromInline var backlog: [State] = []
  /// The index of the oldest state in a full backlog.
  @usableFromInline var oldestIndex = 0
  @usableFromInline var keepsBacklog = true
  private var isStopped = false

  /// The number of states that an iterator may lag behind. Unit: states.
  @inlinable
  static var capacity: Int { 1024 }

  @usableFromInline
  init(_ state: State) { self.state = state }

  /// Publishes a state. Returns the previous state, whether a reader waits for a state, and whether
  /// a reader is full.
  @inlinable
  mutating func publish(_ next: State) -> (former: State, isAwaited: Bool, isFull: Bool) {
    let former = state
    state = next
    var isAwaited = false
    var isFull = false
    for link in unmanagedReaders {
      link._withUnsafeGuaranteedRef { reader in
        reader.write(next)
        if reader.isWaiting.load(ordering: .sequentiallyConsistent) { isAwaited = true }
        if reader.isAtCapacity { isFull = true }
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
      backlog[oldestIndex] = state
      oldestIndex = (oldestIndex + 1) % Self.capacity
    }
  }

  /// Makes a reader. The first reader without `skipsBacklog` also receives the earlier states.
  mutating func makeReader(
    skipsBacklog: Bool,
    signalCapacity: @escaping @Sendable () -> Void,
    ended: @escaping @Sendable (StateReader<State>) -> Void
  ) -> StateReader<State> {
    var states = [state]
    if keepsBacklog && !skipsBacklog {
      states = Array(backlog[oldestIndex...] + backlog[..<oldestIndex])
      keepsBacklog = false
      backlog = []
    }
    let reader = StateReader(
      states: states, capacity: Self.capacity, signalCapacity: signalCapacity, ended: ended)
    if isStopped { reader.finish() } else { readers.append(reader) }
    return reader
  }

  mutating func remove(_ reader: StateReader<State>) { readers.removeAll { $0 === reader } }

  /// Stops publishing. Returns the readers that the caller must finish.
  mutating func stop() -> [StateReader<State>] {
    isStopped = true
    defer { readers = [] }
    return readers
  }
}

/// A marker for an event that describes a change which has already happened, but is not part of a
/// step yet.
///
/// An effect passes the marker with its event. If the change becomes part of another step while the
/// event is queued, the event is withdrawn, and no step is taken.
@usableFromInline
package final class Announcement: Sendable {
  private let withdrawnFlag = Atomic(false)

  package init() {}

  /// Whether the event has been withdrawn and must not be processed.
  package var isWithdrawn: Bool { withdrawnFlag.load(ordering: .acquiring) }

  /// Withdraws the event. The change that the event describes has become part of another step, or
  /// has been discarded.
  package func withdraw() { withdrawnFlag.store(true, ordering: .releasing) }
}

/// The intermediate states of the running step, until the step is over.
@usableFromInline
struct IntermediateStates<State> {
  /// The number of intermediate states of the running step.
  @usableFromInline private(set) var countInStep: UInt64 = 0
  /// The state in which the transition began; `nil` if the transition has entered no intermediate
  /// state.
  private(set) var origin: State?
  /// The number of intermediate states since the run began.
  private(set) var countInRun: UInt64 = 0
  /// The intermediate states that have consequences when the step is over, such as events for
  /// pipes.
  private var consequentialStates: [State] = []

  init() {}

  /// Records that the transition has entered an intermediate state.
  /// - Parameter hasConsequences: Whether the state has consequences that follow when the step is
  ///   over.
  mutating func pass(from state: State, through next: State, hasConsequences: Bool) {
    if countInStep == 0 { origin = state }
    if hasConsequences { consequentialStates.append(next) }
    countInStep += 1
    countInRun += 1
  }

  /// Handles the failure of the step.
  /// - Returns: The state in which the step began, which must be published again; `nil` if no
  ///   intermediate state was published.
  mutating func rollBack() -> State? {
    guard let origin else { return nil }
    _ = end()
    countInRun += 1
    return origin
  }

  /// Ends the step.
  /// - Returns: The intermediate states whose consequences are due now.
  mutating func end() -> [State] {
    defer { (countInStep, origin, consequentialStates) = (0, nil, []) }
    return consequentialStates
  }
}
