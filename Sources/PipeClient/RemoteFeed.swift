import PipeMachines
import PipeWire

/// A state of a node elsewhere, as its feed tells it.
struct RemoteState<State: Sendable>: Sendable {
  var state: State
  var incarnation: UInt64
  var version: UInt64
  /// Whether it is on the way of a step that is not over.
  var isPassing: Bool
}

/// The states of a node elsewhere.
final class RemoteFeed<State: MachineState>: Sendable {
  private let subject: ConcurrentValueSubject<RemoteState<State>>
  private let following: Task<Void, Never>

  /// - Parameters:
  ///   - first: What the stream has told already.
  ///   - report: Told of a state that is none of the type, and with `nil` of each that is one.
  /// - Throws: ``TopologyClientError`` where the first state is none of the type.
  init(
    first: StateChange, of stream: StateStream,
    report: @escaping @Sendable (TopologyClientError?) -> Void
  ) throws(TopologyClientError) {
    let subject = ConcurrentValueSubject(try Self.read(first))
    self.subject = subject
    following = Task {
      for await change in stream {
        do throws(TopologyClientError) {
          subject.send(try Self.read(change))
          report(nil)
        } catch {
          report(error)
        }
      }
      subject.finish()
    }
  }

  deinit { following.cancel() }

  var current: RemoteState<State> { subject.state }
  var state: State { subject.state.state }
  var states: StatePublisher<RemoteState<State>> { subject.eraseToAnyPublisher() }

  private static func read(
    _ change: StateChange
  ) throws(TopologyClientError) -> RemoteState<State> {
    RemoteState(
      state: try RemoteTypes.decode(change.state, of: change.node),
      incarnation: change.incarnation, version: change.version, isPassing: change.isPassing)
  }
}

/// The states of a node elsewhere from a step on: those of the step itself, and all that follow.
///
/// To be made before the step's event is sent, so that none is missed.
final class RemoteSteps<State: Sendable> {
  private var iterator: AsyncStream<RemoteState<State>>.Iterator
  private let isDurable: Bool
  private var step = (version: UInt64.max, incarnation: UInt64.max)
  private var isReached = false
  /// States on the way of a step of which it is not known yet whether it is the one.
  private var passed: [RemoteState<State>] = []
  /// Those that count and were not given yet.
  private var due: ArraySlice<State> = []

  /// - Parameter isDurable: Whether versions go on when the node is started again.
  init(_ iterator: AsyncStream<RemoteState<State>>.Iterator, isDurable: Bool) {
    self.iterator = iterator
    self.isDurable = isDurable
  }

  /// The step has led to this version.
  /// - Parameter incarnation: The start of the node that the last state seen is of.
  func count(from version: UInt64, after incarnation: UInt64) { step = (version, incarnation) }

  /// The next state; `nil` once there are no more, or where the task is cancelled.
  func next(isolation: isolated (any Actor)? = #isolation) async -> State? {
    while true {
      if let state = due.popFirst() { return state }
      guard let next = await iterator.next(isolation: isolation) else { return nil }
      take(next)
    }
  }

  private func take(_ next: RemoteState<State>) {
    if isReached { return due.append(next.state) }
    // What a process went through that was killed then belongs to no step.
    if let last = passed.last, last.incarnation != next.incarnation { passed = [] }
    if next.version >= step.version || !isDurable && next.incarnation > step.incarnation {
      isReached = true
      due = ArraySlice(passed.map(\.state) + [next.state])
      passed = []
    } else if next.isPassing {
      passed.append(next)
    } else {
      passed = []
    }
  }
}
