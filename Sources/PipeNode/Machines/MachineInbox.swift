import PipeMachines
import PipeSupport

/// The pending inputs of a machine: requests of clients, and events of its pipes.
///
/// ``next()`` returns the inputs in this order:
/// 1. The requests, in the order of their arrival.
/// 2. One event of each pipe in turn, so that no pipe starves. The search for the next event starts
///    at the pipe after the pipe that had the last turn. The events of one pipe keep the order of
///    their arrival.
///
/// ``postpone(_:of:)`` sets an event aside until ``retryPostponed()``. The retried events of a pipe
/// come before the pipe's other events, in the order in which they were postponed. The pipe whose
/// event was postponed first has the next turn.
package struct MachineInbox<Event, Request> {
  package enum Input {
    case request(Request)
    case event(PipeEvent<Event>, pipe: Int)
  }

  private struct PipeQueue {
    var waiting = Queue<PipeEvent<Event>>()
    /// The events that the machine has refused in its current state, to be retried after the next
    /// step.
    var postponedEvents: [PipeEvent<Event>] = []
  }

  private var requests = Queue<Request>()
  private var pipeQueues: [PipeQueue]
  /// The pipes with at least one waiting event. Postponed events do not count.
  private var waitingPipes: IndexBitmap
  /// The number of pipes with at least one postponed event.
  private var postponingPipeCount = 0
  /// The pipe that has the next turn.
  private var nextPipe = 0

  package init(pipes: Int = 0) {
    pipeQueues = Array(repeating: PipeQueue(), count: pipes)
    waitingPipes = IndexBitmap(count: pipes)
  }

  /// The number of waiting requests.
  package var requestCount: Int { requests.count }

  /// Whether ``next()`` would return `nil`. Postponed events do not count.
  package var isEmpty: Bool { requests.isEmpty && waitingPipes.isEmpty }

  /// Returns the number of waiting events of a pipe, the postponed events included.
  package func waitingCount(of pipe: Int) -> Int {
    pipeQueues[pipe].waiting.count + pipeQueues[pipe].postponedEvents.count
  }

  package mutating func append(_ request: Request) { requests.append(request) }

  package mutating func append(_ event: consuming PipeEvent<Event>, of pipe: Int) {
    pipeQueues[pipe].waiting.append(event)
    waitingPipes.insert(pipe)
  }

  /// Removes and returns the next input.
  package mutating func next() -> Input? {
    if let request = requests.popFirst() { return .request(request) }
    guard let pipe = waitingPipes.firstIndex(from: nextPipe),
      let event = pipeQueues[pipe].waiting.popFirst()
    else { return nil }
    nextPipe = pipe + 1 == pipeQueues.count ? 0 : pipe + 1
    if pipeQueues[pipe].waiting.isEmpty { waitingPipes.remove(pipe) }
    return .event(event, pipe: pipe)
  }

  /// Returns the waiting events of a pipe, in the order of their turns, and its postponed events.
  package func events(
    of pipe: Int
  ) -> (waiting: [PipeEvent<Event>], postponed: [PipeEvent<Event>]) {
    var queue = pipeQueues[pipe].waiting
    return (queue.removeAll(), pipeQueues[pipe].postponedEvents)
  }

  /// Removes and returns the next request.
  package mutating func nextRequest() -> Input? { requests.popFirst().map { .request($0) } }

  /// Removes and returns the next waiting event of a pipe.
  package mutating func next(of pipe: Int) -> PipeEvent<Event>? {
    guard let event = pipeQueues[pipe].waiting.popFirst() else { return nil }
    if pipeQueues[pipe].waiting.isEmpty { waitingPipes.remove(pipe) }
    return event
  }

  /// Sets an event aside until ``retryPostponed()``.
  /// - Precondition: The event has its postponement number already.
  package mutating func postpone(_ event: PipeEvent<Event>, of pipe: Int) {
    if pipeQueues[pipe].postponedEvents.isEmpty { postponingPipeCount += 1 }
    pipeQueues[pipe].postponedEvents.append(event)
  }

  /// Queues the postponed events again, because the state has changed.
  package mutating func retryPostponed() {
    guard postponingPipeCount > 0 else { return }
    postponingPipeCount = 0
    var oldest = Int64.max
    for pipe in pipeQueues.indices where !pipeQueues[pipe].postponedEvents.isEmpty {
      let postponed = pipeQueues[pipe].postponedEvents
      pipeQueues[pipe].postponedEvents = []
      pipeQueues[pipe].waiting.prepend(contentsOf: postponed)
      waitingPipes.insert(pipe)
      guard let number = postponed[0].postponementID, number < oldest else { continue }
      oldest = number
      nextPipe = pipe
    }
  }

  /// Removes and returns all requests, since the machine stops.
  package mutating func removeRequests() -> [Request] { requests.removeAll() }
}

/// An event that a pipe has delivered. Its content may also be bytes that cannot be decoded as an
/// event.
package struct PipeEvent<Event> {
  package enum Content {
    case event(Event)
    /// The decoding error, and the bytes as JSON, or as a JSON string if they are not JSON.
    case undecodable(String, JSONValue)
  }

  package let sequence: UInt64
  /// The stream that the event belongs to. The pipe's sender may have begun another stream after it
  /// sent the event.
  package let stream: UInt64
  package let content: Content
  /// The schema version in which the event arrived.
  package let schema: Int
  /// The id of the event among the postponed events; `nil` if the event was never postponed.
  package var postponementID: Int64?

  package init(
    _ content: consuming Content, sequence: UInt64, stream: UInt64, postponement: Int64? = nil,
    schema: Int = 1
  ) {
    self.schema = schema
    self.sequence = sequence
    self.stream = stream
    self.content = content
    self.postponementID = postponement
  }
}

extension PipeEvent.Content where Event: Codable & Sendable {
  /// Decodes an event. If the bytes cannot be decoded, the content is `undecodable`.
  init(_ bytes: UnsafeRawBufferPointer, readBy codec: EventCodec<Event>) {
    do {
      self = .event(try codec.decode(bytes))
    } catch {
      self = .undecodable("\(error)", JSONValue(shown: Array(bytes)))
    }
  }
}
