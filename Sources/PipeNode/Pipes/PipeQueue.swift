import PipeMachines
import PipeSupport
import PipeWire

/// The events of one in-pipe that its machine has not taken yet.
struct PipeQueue<Event> {
  /// One event, or bytes that are none.
  struct Entry {
    enum Content {
      case event(Event)
      case undecodable(String, JSONValue)
    }

    let sequence: UInt64
    /// The numbering that it came in; its sender may have begun another one since.
    let stream: UInt64
    let content: Content
    /// Its number among the events that were put off, where it was.
    var held: Int64?
  }

  let pipe: InPipe
  private var waiting = Queue<Entry>()
  /// Refused in the current state: tried again, in order and first, when it changes.
  private var postponed: [Entry] = []

  init(pipe: InPipe) { self.pipe = pipe }

  /// Takes an event that an earlier process had put off. It is tried again: the state may have
  /// changed since.
  mutating func restore(_ content: Entry.Content, sequence: UInt64, held: Int64) {
    waiting.append(
      Entry(sequence: sequence, stream: pipe.state.stream, content: content, held: held))
  }

  /// Whether there is an event that has not been refused in this state.
  var hasNext: Bool { !waiting.isEmpty }

  var status: NodeStatus.Pipe {
    NodeStatus.Pipe(
      name: pipe.name, events: pipe.state.received, applied: pipe.state.applied,
      waiting: waiting.count + postponed.count, capacity: Int(pipe.state.capacity))
  }

  mutating func append(_ event: Event, sequence: UInt64) {
    waiting.append(
      Entry(sequence: sequence, stream: pipe.state.stream, content: .event(event)))
  }

  mutating func appendUndecodable(
    _ problem: String, bytes: UnsafeRawBufferPointer, sequence: UInt64
  ) {
    waiting.append(
      Entry(
        sequence: sequence, stream: pipe.state.stream,
        content: .undecodable(problem, bytes: bytes)))
  }

  mutating func popNext() -> Entry? { waiting.popFirst() }

  mutating func postpone(_ entry: Entry) { postponed.append(entry) }

  /// Puts the postponed events first again. Returns the number of the oldest, if there is one.
  mutating func retryPostponed() -> Int64? {
    guard !postponed.isEmpty else { return nil }
    defer { postponed = [] }
    waiting.prepend(contentsOf: postponed)
    return postponed[0].held
  }
}

extension PipeQueue.Entry.Content {
  static func undecodable(_ problem: String, bytes: some Collection<UInt8>) -> Self {
    let value =
      (try? JSONValue(parsing: Array(bytes))) ?? .string(String(decoding: bytes, as: UTF8.self))
    return .undecodable(problem, value)
  }
}
