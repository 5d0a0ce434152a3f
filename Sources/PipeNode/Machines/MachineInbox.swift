import PipeMachines
import PipeSupport

/// The pending inputs of a machine: requests of clients, and events of its pipes.
///
/// ``next()`` returns them in this order:
/// 1. The requests, in the order of their arrival.
/// 2. One event of each pipe in turn, so that no pipe starves. The search for the next event starts
///    at the pipe after the one that had the last turn. The events of one pipe keep the order of
///    their arrival.
///
/// A postponed event is set aside until ``retryPostponed()``. Then it comes before all other events
/// of its pipe, but behind the events that were postponed before. The pipe with the event that was
/// postponed first has the next turn.
package struct MachineInbox<Event, Request> {
  package enum Input {
    case request(Request)
    case event(PipeEvent<Event>, pipe: Int)
  }

  private struct Lane {
    var waiting = Queue<PipeEvent<Event>>()
    /// The events that the current state refused.
    var postponed: [PipeEvent<Event>] = []
  }

  private var requests = Queue<Request>()
  private var lanes: [Lane]
  /// The pipes that have an event.
  private var waiting: IndexBitmap
  /// The number of pipes that have a postponed event.
  private var postponedLanes = 0
  /// The pipe that has the next turn.
  private var turn = 0

  package init(pipes: Int = 0) {
    lanes = Array(repeating: Lane(), count: pipes)
    waiting = IndexBitmap(count: pipes)
  }

  /// The number of waiting requests.
  package var requestCount: Int { requests.count }

  /// Whether no input can be taken in the current state.
  package var isEmpty: Bool { requests.isEmpty && waiting.isEmpty }

  /// Returns the number of waiting events of a pipe, the postponed events included.
  package func count(of pipe: Int) -> Int {
    lanes[pipe].waiting.count + lanes[pipe].postponed.count
  }

  package mutating func append(_ request: Request) { requests.append(request) }

  package mutating func append(_ event: consuming PipeEvent<Event>, of pipe: Int) {
    lanes[pipe].waiting.append(event)
    waiting.insert(pipe)
  }

  /// Removes and returns the next input.
  package mutating func next() -> Input? {
    if let request = requests.popFirst() { return .request(request) }
    guard let pipe = waiting.first(from: turn), let event = lanes[pipe].waiting.popFirst()
    else { return nil }
    turn = pipe + 1 == lanes.count ? 0 : pipe + 1
    if lanes[pipe].waiting.isEmpty { waiting.remove(pipe) }
    return .event(event, pipe: pipe)
  }

  /// Sets an event aside for a later state. The event has its postponement number already.
  package mutating func postpone(_ event: PipeEvent<Event>, of pipe: Int) {
    if lanes[pipe].postponed.isEmpty { postponedLanes += 1 }
    lanes[pipe].postponed.append(event)
  }

  /// Queues the postponed events again, because the state has changed.
  package mutating func retryPostponed() {
    guard postponedLanes > 0 else { return }
    postponedLanes = 0
    var oldest = Int64.max
    for pipe in lanes.indices where !lanes[pipe].postponed.isEmpty {
      let postponed = lanes[pipe].postponed
      lanes[pipe].postponed = []
      lanes[pipe].waiting.prepend(contentsOf: postponed)
      waiting.insert(pipe)
      guard let number = postponed[0].postponement, number < oldest else { continue }
      oldest = number
      turn = pipe
    }
  }

  /// Removes and returns the requests: the machine takes none of them any more.
  package mutating func removeRequests() -> [Request] { requests.removeAll() }
}

/// One event that a pipe has delivered, or bytes that are not an event.
package struct PipeEvent<Event> {
  package enum Content {
    case event(Event)
    /// The reason why the bytes are not an event, and the bytes: as JSON, or as text if they are
    /// not JSON either.
    case undecodable(String, JSONValue)
  }

  package let sequence: UInt64
  /// The stream that the event belongs to. Its sender may have begun another stream since.
  package let stream: UInt64
  package let content: Content
  /// The event's number among the postponed events, if it was postponed.
  package var postponement: Int64?

  package init(
    _ content: consuming Content, sequence: UInt64, stream: UInt64, postponement: Int64? = nil
  ) {
    self.sequence = sequence
    self.stream = stream
    self.content = content
    self.postponement = postponement
  }
}

extension PipeEvent.Content where Event: Codable & Sendable {
  /// Decodes the bytes.
  init(_ bytes: UnsafeRawBufferPointer, readBy codec: EventCodec<Event>) {
    do {
      self = .event(try codec.decode(bytes))
    } catch {
      self = .undecodable("\(error)", JSONValue(shown: Array(bytes)))
    }
  }
}
