/// The events of one in-pipe that its machine has not taken yet.
struct PipeQueue<Event> {
  /// One event, or bytes that are none.
  struct Entry {
    enum Content {
      case event(Event)
      case undecodable(String, JSONValue)
    }

    let sequence: UInt64
    let content: Content
  }

  let pipe: InPipe
  private var waiting = Queue<Entry>()
  /// Refused in the current state: tried again, in order and first, when it changes.
  private var postponed: [Entry] = []

  init(pipe: InPipe) { self.pipe = pipe }

  /// Whether there is an event that has not been refused in this state.
  var hasNext: Bool { !waiting.isEmpty }

  var status: NodeStatus.Pipe {
    NodeStatus.Pipe(
      name: pipe.name, events: pipe.state.received, applied: pipe.state.applied,
      waiting: waiting.count + postponed.count, capacity: Int(pipe.state.capacity))
  }

  mutating func append(_ event: Event, sequence: UInt64) {
    waiting.append(Entry(sequence: sequence, content: .event(event)))
  }

  mutating func appendUndecodable(
    _ problem: String, bytes: UnsafeRawBufferPointer, sequence: UInt64
  ) {
    let value =
      (try? JSONValue(parsing: bytes)) ?? .string(String(decoding: bytes, as: UTF8.self))
    waiting.append(Entry(sequence: sequence, content: .undecodable(problem, value)))
  }

  mutating func popNext() -> Entry? { waiting.popFirst() }

  mutating func postpone(_ entry: Entry) { postponed.append(entry) }

  mutating func retryPostponed() {
    guard !postponed.isEmpty else { return }
    waiting.prepend(contentsOf: postponed)
    postponed = []
  }
}
