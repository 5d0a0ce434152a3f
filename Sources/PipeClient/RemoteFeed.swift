import PipeMachines
import PipeWire

/// A state of a remote node, as the node's feed publishes it.
struct RemoteState<State: Sendable>: Sendable {
  var state: State
  var incarnation: UInt64
  var version: UInt64
  /// Whether the node has entered this state within a step that is not finished yet.
  var isIntermediate: Bool
}

/// The states of a remote node.
final class RemoteFeed<State: MachineState>: Sendable {
  private let subject: ConcurrentValueSubject<RemoteState<State>>
  private let followingTask: Task<Void, Never>

  /// - Parameters:
  ///   - first: The first change, which the stream has already delivered.
  ///   - report: Called for each state: with an error if the state does not have the type `State`,
  ///     otherwise with `nil`.
  /// - Throws: ``TopologyClientError`` if the first state does not have the type `State`.
  init(
    first: StateChange, of stream: StateStream,
    report: @escaping @Sendable (TopologyClientError?) -> Void
  ) throws(TopologyClientError) {
    let subject = ConcurrentValueSubject(try Self.read(first))
    self.subject = subject
    followingTask = Task {
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

  deinit { followingTask.cancel() }

  var current: RemoteState<State> { subject.state }
  var state: State { subject.state.state }
  var states: StatePublisher<RemoteState<State>> { subject.eraseToAnyPublisher() }

  /// Returns the first state with this version or a later version, except intermediate states;
  /// `nil` if the stream ends first.
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

/// The states of a remote node, starting with the states of one step.
///
/// Create this value before you send the event of the step, so that no state is missed.
final class RemoteSteps<State: Sendable> {
  private var iterator: AsyncStream<RemoteState<State>>.Iterator
  private let isDurable: Bool
  private var awaitedStep = (version: UInt64.max, incarnation: UInt64.max)
  private var isReached = false
  /// Intermediate states that may belong to the awaited step.
  private var passedStates: [RemoteState<State>] = []
  /// States of the step and later states that are not returned yet.
  private var pendingStates: ArraySlice<State> = []

  /// - Parameter isDurable: Whether the version numbers continue when the node restarts.
  init(_ iterator: AsyncStream<RemoteState<State>>.Iterator, isDurable: Bool) {
    self.iterator = iterator
    self.isDurable = isDurable
  }

  /// Sets the version that results from the awaited step.
  /// - Parameter incarnation: The node's incarnation in the last state that was received before
  ///   this call.
  func awaitStep(from version: UInt64, after incarnation: UInt64) {
    awaitedStep = (version, incarnation)
  }

  /// Returns the next state; `nil` if there are no more states, or the task is cancelled.
  func next(isolation: isolated (any Actor)? = #isolation) async -> State? {
    while true {
      if let state = pendingStates.popFirst() { return state }
      guard let next = await iterator.next(isolation: isolation) else { return nil }
      accept(next)
    }
  }

  private func accept(_ next: RemoteState<State>) {
    if isReached { return pendingStates.append(next.state) }
    // If the incarnation has changed, the former process was killed during a step. The step was not
    // completed, so its intermediate states are dropped.
    if let last = passedStates.last, last.incarnation != next.incarnation { passedStates = [] }
    if next.version >= awaitedStep.version
      || !isDurable && next.incarnation > awaitedStep.incarnation
    {
      isReached = true
      pendingStates = ArraySlice(passedStates.map(\.state) + [next.state])
      passedStates = []
    } else if next.isIntermediate {
      passedStates.append(next)
    } else {
      passedStates = []
    }
  }
}
