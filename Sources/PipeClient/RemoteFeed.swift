import PipeMachines
import PipeWire

/// A state of a remote node, as its feed publishes it.
struct RemoteState<State: Sendable>: Sendable {
  var state: State
  var incarnation: UInt64
  var version: UInt64
  /// Whether the node only passes through the state, in a step that is not over.
  var isIntermediate: Bool
}

/// The states of a remote node.
final class RemoteFeed<State: MachineState>: Sendable {
  private let subject: ConcurrentValueSubject<RemoteState<State>>
  private let following: Task<Void, Never>

  /// - Parameters:
  ///   - first: The change that the stream has already delivered.
  ///   - report: Called with an error for each state that is not of the type, and with `nil` for
  ///     each other state.
  /// - Throws: ``TopologyClientError`` if the first state is not of the type.
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

  /// Returns the first state of this version or a later one; `nil` if the states end before.
  func state(from version: UInt64) async -> State? {
    for await state in states where state.version >= version && !state.isIntermediate {
      return state.state
    }
    return nil
  }

  private static func read(
    _ change: StateChange
  ) throws(TopologyClientError) -> RemoteState<State> {
    RemoteState(
      state: try RemoteTypes.decode(change.state, of: change.node),
      incarnation: change.incarnation, version: change.version,
      isIntermediate: change.isIntermediate)
  }
}

/// The states of a remote node from a step on: the states of the step itself, and all that follow.
///
/// Create this before you send the step's event, so that no state is missed.
final class RemoteSteps<State: Sendable> {
  private var iterator: AsyncStream<RemoteState<State>>.Iterator
  private let isDurable: Bool
  private var step = (version: UInt64.max, incarnation: UInt64.max)
  private var isReached = false
  /// States passed during a step that may turn out to be the expected one.
  private var passed: [RemoteState<State>] = []
  /// States that belong to the step or follow it, and are not returned yet.
  private var pendingStates: ArraySlice<State> = []

  /// - Parameter isDurable: Whether version numbers continue when the node is restarted.
  init(_ iterator: AsyncStream<RemoteState<State>>.Iterator, isDurable: Bool) {
    self.iterator = iterator
    self.isDurable = isDurable
  }

  /// Sets the version that the step has resulted in.
  /// - Parameter incarnation: The incarnation of the last state seen.
  func count(from version: UInt64, after incarnation: UInt64) { step = (version, incarnation) }

  /// Returns the next state; `nil` if there are no more states, or the task is cancelled.
  func next(isolation: isolated (any Actor)? = #isolation) async -> State? {
    while true {
      if let state = pendingStates.popFirst() { return state }
      guard let next = await iterator.next(isolation: isolation) else { return nil }
      take(next)
    }
  }

  private func take(_ next: RemoteState<State>) {
    if isReached { return pendingStates.append(next.state) }
    // States that a killed process has passed belong to no step.
    if let last = passed.last, last.incarnation != next.incarnation { passed = [] }
    if next.version >= step.version || !isDurable && next.incarnation > step.incarnation {
      isReached = true
      pendingStates = ArraySlice(passed.map(\.state) + [next.state])
      passed = []
    } else if next.isIntermediate {
      passed.append(next)
    } else {
      passed = []
    }
  }
}
