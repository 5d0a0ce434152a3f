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
