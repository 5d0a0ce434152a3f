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

/// That an event stands for something which has been done already, as long as no step goes without it.
///
/// An effect gives its event with one where what the event is about may come to nothing while it waits for
/// its turn: then it is withdrawn, and no step is taken.
@usableFromInline
package final class Announcement: Sendable {
  private let withdrawn = Atomic(false)

  package init() {}

  /// Whether the event is not to be taken any more.
  package var isWithdrawn: Bool { withdrawn.load(ordering: .acquiring) }

  /// What the event stands for is a part of another step, or never was.
  package func withdraw() { withdrawn.store(true, ordering: .releasing) }
}

/// The states that the transition of a step has gone through on its way, until the step is over.
@usableFromInline
struct PassingStates<State> {
  /// How many so far.
  @usableFromInline private(set) var count: UInt64 = 0
  /// The state that the transition began in, where it has gone through any.
  private(set) var origin: State?
  /// How many there were since the run began.
  private(set) var total: UInt64 = 0
  /// Those from which something follows.
  private var followed: [State] = []

  init() {}

  /// The transition goes from a state through another one.
  /// - Parameter isFollowed: Whether something follows from that when the step is over.
  mutating func pass(from state: State, through next: State, isFollowed: Bool) {
    if count == 0 { origin = state }
    if isFollowed { followed.append(next) }
    count += 1
    total += 1
  }

  /// The step has come to nothing.
  /// - Returns: The state that it began in, which is to be shown again; `nil` where no other was seen.
  mutating func turnBack() -> State? {
    guard let origin else { return nil }
    _ = end()
    total += 1
    return origin
  }

  /// The step is over.
  /// - Returns: The states from which something follows now.
  mutating func end() -> [State] {
    defer { (count, origin, followed) = (0, nil, []) }
    return followed
  }
}
