import Synchronization

/// The published states of a ``MachineRun``: the current state, and the states for its readers.
@usableFromInline
struct PublishedStates<State: Sendable>: Sendable {
  @usableFromInline var state: State
  private(set) var readers: [StateReader<State>] = [] {
    didSet { unmanagedReaders = readers.map(Unmanaged.passUnretained) }
  }
  /// The readers, without reference counting.
  @usableFromInline var unmanagedReaders: [Unmanaged<StateReader<State>>] = []
  /// The last states, for the first reader; unused after the first reader is made.
  @usableFromInline var backlog: [State] = []
  /// The index of the oldest state in a full backlog.
  @usableFromInline var oldest = 0
  @usableFromInline var keepsBacklog = true
  private var isStopped = false

  /// The number of states that an iterator may lag behind. Unit: states.
  @inlinable
  static var capacity: Int { 1024 }

  @usableFromInline
  init(_ state: State) { self.state = state }

  /// Publishes a state. Returns the previous state, and whether a reader waits or is full.
  @inlinable
  mutating func enter(_ next: State) -> (former: State, isAwaited: Bool, isFull: Bool) {
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
      backlog[oldest] = state
      oldest = (oldest + 1) % Self.capacity
    }
  }

  /// Makes a reader. The first reader that is not late also gets the earlier states.
  mutating func makeReader(
    skipsBacklog: Bool,
    signalCapacity: @escaping @Sendable () -> Void,
    ended: @escaping @Sendable (StateReader<State>) -> Void
  ) -> StateReader<State> {
    var states = [state]
    if keepsBacklog && !skipsBacklog {
      states = Array(backlog[oldest...] + backlog[..<oldest])
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

/// A marker of an event that describes something that has already happened, while no step covers
/// it.
///
/// An effect passes the marker with its event. If the change becomes part of another step while the
/// event is queued, the event is withdrawn, and no step is taken.
@usableFromInline
package final class Announcement: Sendable {
  private let withdrawn = Atomic(false)

  package init() {}

  /// Whether the event must no longer be processed.
  package var isWithdrawn: Bool { withdrawn.load(ordering: .acquiring) }

  /// Withdraws the event: the change that it describes is part of another step, or is void.
  package func withdraw() { withdrawn.store(true, ordering: .releasing) }
}

/// The intermediate states of the running step, until the step is over.
@usableFromInline
struct IntermediateStates<State> {
  /// The number of intermediate states so far.
  @usableFromInline private(set) var count: UInt64 = 0
  /// The state in which the transition began, if it has passed through an intermediate state.
  private(set) var origin: State?
  /// The number of intermediate states since the run began.
  private(set) var total: UInt64 = 0
  /// The intermediate states that have consequences.
  private var consequentialStates: [State] = []

  init() {}

  /// Notes that the transition passes from one state through another.
  /// - Parameter isFollowed: Whether the state has consequences when the step is over.
  mutating func pass(from state: State, through next: State, hasConsequences: Bool) {
    if count == 0 { origin = state }
    if hasConsequences { consequentialStates.append(next) }
    count += 1
    total += 1
  }

  /// Handles the failure of the step.
  /// - Returns: The state in which the step began, which must be shown again; `nil` if no
  ///   intermediate state was shown.
  mutating func rollBack() -> State? {
    guard let origin else { return nil }
    _ = end()
    total += 1
    return origin
  }

  /// Ends the step.
  /// - Returns: The intermediate states that have consequences now.
  mutating func end() -> [State] {
    defer { (count, origin, consequentialStates) = (0, nil, []) }
    return consequentialStates
  }
}
