import PipeSupport

/// The host's end of a pipe, which accepts the events that a machine sends.
package protocol PipeOutlet<Event>: AnyObject, Sendable {
  associatedtype Event
  /// Queues one event. Called on the thread of the step that sends it.
  func enqueue(_ event: Event)
  /// Whether the machine must wait before its next step.
  var isFull: Bool { get }
}

/// Binds each port of a machine to a pipe of the host.
package protocol PortBinder {
  func bind<Event: MachineEvent>(_ pipe: EventPipe<Event>)
}

/// The named pipes of a machine. In a node, the topology connects these pipes to other nodes.
/// Outside of a node, the pipes are queues in memory.
public final class Ports: Sendable {
  private struct Port: Sendable {
    var pipe: any Sendable
    var eventType: String
    var bind: @Sendable (any PortBinder) -> Void
  }

  private struct State {
    var ports: [String: Port] = [:]
    var order: [String] = []
    var problems: [String] = []
  }

  private let state = Locked(State())

  /// Makes an empty set of ports.
  public init() {}

  /// Returns the pipe with this name, which is the same pipe at every call.
  ///
  /// A request for the same name with a different event type is an error, which the host reports.
  /// - Parameter schema: The schema version in which this machine sends the receiver's events, if
  ///   another program contains the receiver; see ``Machine/schema``. Default: the version of the
  ///   receiver in this program, or else version 1.
  public func pipe<Event: MachineEvent>(
    _ name: String, schema: Int? = nil
  ) -> EventPipe<Event> {
    state.withLock { state in
      if let known = state.ports[name] {
        if let pipe = known.pipe as? EventPipe<Event> {
          if let schema, schema != pipe.schema {
            state.problems.append(
              "port '\(name)' has two values of 'schema'; declare the same value at each use")
          }
          return pipe
        }
        state.problems.append(
          """
          port '\(name)' has two event types, \(known.eventType) and \
          \(TypeName.of(Event.self)); rename one of the ports
          """)
        return EventPipe(name: name)
      }
      // The codec is made here, where the compiler knows the event's type. Only the host's thread
      // uses the codec.
      nonisolated(unsafe) let codec = EventCodec<Event>(isSynthesized: Event._isSynthesizedCodable)
      let pipe = EventPipe<Event>(
        name: name, schema: schema, encode: { try codec.encode($0, into: &$1) })
      state.ports[name] = Port(
        pipe: pipe, eventType: TypeName.of(Event.self), bind: { $0.bind(pipe) })
      state.order.append(name)
      return pipe
    }
  }

  /// Messages about conflicting requests for a port, such as two event types; empty if there are
  /// none.
  package var problems: [String] { state.withLock(\.problems) }

  /// The names requested so far, in the order of the requests.
  package var names: [String] { state.withLock(\.order) }

  /// Passes every port to the host's binder.
  package func bind(with binder: any PortBinder) {
    let ports = state.withLock { state in state.order.compactMap { state.ports[$0] } }
    for port in ports { port.bind(binder) }
  }
}
