import PipeMachines
import PipeSupport

/// What a machine has yet to take: requests of clients, and events of its pipes.
///
/// ``next()`` gives them in this order:
/// 1. the requests, as they came;
/// 2. one event of each pipe in turn, so that none starves: the next is of the first pipe that has
///    one, behind that of which the last was. Those of one pipe come as they arrived.
///
/// An event that is postponed is out of the way until ``retryPostponed()``. Then it comes before all
/// others of its pipe, behind those that were postponed before it, and the pipe that has the event
/// which was postponed first has the next turn.
package struct MachineInbox<Event, Request> {
  package enum Input {
    case request(Request)
    case event(PipeEvent<Event>, pipe: Int)
  }

  private struct Lane {
    var waiting = Queue<PipeEvent<Event>>()
    /// Refused in the current state.
    var postponed: [PipeEvent<Event>] = []
  }

  private var requests = Queue<Request>()
  private var lanes: [Lane]
  /// Those that have an event.
  private var waiting: PlaceSet
  /// How many have one that is postponed.
  private var postponedLanes = 0
  /// The pipe whose turn is next.
  private var turn = 0

  package init(pipes: Int = 0) {
    lanes = Array(repeating: Lane(), count: pipes)
    waiting = PlaceSet(count: pipes)
  }

  /// Requests that wait.
  package var requestCount: Int { requests.count }

  /// Whether nothing can be taken in the current state.
  package var isEmpty: Bool { requests.isEmpty && waiting.isEmpty }

  /// The events of a pipe that wait, the postponed ones included.
  package func count(of pipe: Int) -> Int {
    lanes[pipe].waiting.count + lanes[pipe].postponed.count
  }

  package mutating func append(_ request: Request) { requests.append(request) }

  package mutating func append(_ event: consuming PipeEvent<Event>, of pipe: Int) {
    lanes[pipe].waiting.append(event)
    waiting.insert(pipe)
  }

  /// Takes out the next input.
  package mutating func next() -> Input? {
    if let request = requests.popFirst() { return .request(request) }
    guard let pipe = waiting.first(from: turn), let event = lanes[pipe].waiting.popFirst()
    else { return nil }
    turn = pipe + 1 == lanes.count ? 0 : pipe + 1
    if lanes[pipe].waiting.isEmpty { waiting.remove(pipe) }
    return .event(event, pipe: pipe)
  }

  /// Keeps an event, which has a number of its postponement, for another state.
  package mutating func postpone(_ event: PipeEvent<Event>, of pipe: Int) {
    if lanes[pipe].postponed.isEmpty { postponedLanes += 1 }
    lanes[pipe].postponed.append(event)
  }

  /// The state has changed: what an earlier one refused may go now.
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

  /// Takes out the requests, which nobody will take any more.
  package mutating func removeRequests() -> [Request] { requests.removeAll() }
}

/// One event that a pipe has brought, or bytes that are none.
package struct PipeEvent<Event> {
  package enum Content {
    case event(Event)
    /// Why it is none, and the bytes: as JSON, or as text where they are not JSON either.
    case undecodable(String, JSONValue)
  }

  package let sequence: UInt64
  /// The numbering that it came in; its sender may have begun another one since.
  package let stream: UInt64
  package let content: Content
  /// Its number among the events that were postponed, where it was.
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
  /// What is in the bytes.
  init(_ bytes: UnsafeRawBufferPointer, readBy codec: EventCodec<Event>) {
    do {
      self = .event(try codec.decode(bytes))
    } catch {
      self = .undecodable("\(error)", JSONValue(shown: Array(bytes)))
    }
  }
}
