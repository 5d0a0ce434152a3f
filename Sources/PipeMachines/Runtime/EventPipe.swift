import PipeSupport

/// A bounded FIFO of events from machines that send into it to machines that receive from it.
///
/// Every receiver gets every event sent while it is attached, in order; to it nothing is lost: a machine
/// that sends into a pipe with a full receiver takes no further event until there is room.
///
/// A pipe without a receiver, because none has come yet or the last one has finished, stops nobody. It
/// keeps the last ``capacity`` events for the next receiver; those before them give way, which is said
/// once, and counted in ``discarded``.
///
/// In a hosted node the same value is bound to a pipe of the topology. From a port that no pipe leads from
/// every event is discarded in the same way: nobody will come.
public final class EventPipe<Event: DSLCompatible>: Sendable {
  /// The name of the port, as a topology refers to it; `nil` for a pipe within the process.
  public let name: String?
  /// How many events may wait for a receiver, or without one. Unit: events. Default: 1024.
  public let capacity: Int

  /// Appends the JSON of an event; for a host, on its one thread.
  package let encode: (@Sendable (Event, inout [UInt8]) throws -> Void)?
  /// What a step that the pipe leads to is said to be caused by.
  let cause: String

  private struct State {
    var waiting = Queue<Event>()
    var receivers: [PipeReceiver<Event>] = []
    var senders: [(id: Int, notify: @Sendable () -> Void)] = []
    var nextSender = 0
    var discarded: UInt64 = 0
    var outlet: (any PipeOutlet<Event>)?
  }

  private let state = Locked(State())
  private let tell = Warnings.tell

  /// Events that have given way, since there was no receiver and more came than the pipe holds.
  public var discarded: UInt64 { state.withLock(\.discarded) }

  /// Makes a pipe within the process.
  public convenience init(capacity: Int = 1024) { self.init(name: nil, capacity: capacity) }

  package init(
    name: String?, capacity: Int = 1024,
    encode: (@Sendable (Event, inout [UInt8]) throws -> Void)? = nil
  ) {
    precondition(capacity > 0, "A pipe holds at least one event; capacity is \(capacity).")
    self.name = name
    self.capacity = capacity
    self.encode = encode
    cause = name.map { "pipe \($0)" } ?? "pipe"
  }

  /// Whether a sender has to wait.
  package var isFull: Bool { room == .none }

  var room: PipeRoom {
    let (outlet, full) = state.withLock { state -> ((any PipeOutlet<Event>)?, Bool) in
      if let outlet = state.outlet { return (outlet, false) }
      return (nil, state.receivers.contains { $0.isFull })
    }
    guard let outlet else { return full ? .none : .forNow }
    return outlet.isFull ? .none : .untilSent
  }

  /// Queues one event. The caller has looked at ``isFull`` before its step began, so the bound may
  /// be passed by the events of one step at most.
  package func send(_ event: Event) {
    let (outlet, receivers, isFirstLoss) = state.withLock { state in
      var isFirstLoss = false
      if state.outlet == nil {
        if state.receivers.isEmpty { isFirstLoss = keep(event, &state) }
        // Appended under the pipe's lock, so that all receivers see one order.
        for receiver in state.receivers { receiver.append(event) }
      }
      return (state.outlet, state.receivers, isFirstLoss)
    }
    outlet?.enqueue(event)
    for receiver in receivers { receiver.notify() }
    if isFirstLoss {
      tell(
        "\(subject): nobody receives from it, and it holds \(capacity) events; from here on the oldest "
          + "give way")
    }
  }

  private var subject: String {
    name.map { "pipe '\($0)'" } ?? "a pipe of \(TypeName.of(Event.self)) events"
  }

  /// Keeps an event for a receiver to come.
  /// - Returns: Whether another has given way for it, as none had before.
  private func keep(_ event: Event, _ state: inout State) -> Bool {
    state.waiting.append(event)
    guard state.waiting.count > capacity else { return false }
    _ = state.waiting.popFirst()
    state.discarded += 1
    return state.discarded == 1
  }

  /// Forwards every event to the host's own pipe from now on, starting with those that wait.
  package func bind(to outlet: any PipeOutlet<Event>) {
    let waiting = state.withLock { state in
      state.outlet = outlet
      return state.waiting.removeAll()
    }
    for event in waiting { outlet.enqueue(event) }
  }
}

extension EventPipe {
  /// Adds a receiver; `notify` is called, on the sender's thread, whenever an event has come.
  package func attach(notify: @escaping @Sendable () -> Void) -> PipeReceiver<Event> {
    let receiver = PipeReceiver<Event>(capacity: capacity, notify: notify) { [weak self] in
      self?.madeRoom()
    }
    let waiting = state.withLock { state in
      state.receivers.append(receiver)
      let waiting = state.waiting.removeAll()
      for event in waiting { receiver.append(event) }
      return waiting
    }
    if !waiting.isEmpty { notify() }
    return receiver
  }

  /// Removes a receiver. What it has not taken waits for the next one, if it was the last.
  package func detach(_ receiver: PipeReceiver<Event>) {
    state.withLock { state in
      guard let index = state.receivers.firstIndex(where: { $0 === receiver }) else { return }
      state.receivers.remove(at: index)
      let left = receiver.close()
      if state.receivers.isEmpty { for event in left { state.waiting.append(event) } }
    }
    madeRoom()
  }

  /// Asks to be told when a full pipe has room again; returns the number to resign with.
  func watchRoom(_ notify: @escaping @Sendable () -> Void) -> Int {
    state.withLock { state in
      state.nextSender += 1
      state.senders.append((state.nextSender, notify))
      return state.nextSender
    }
  }

  func unwatchRoom(_ id: Int) {
    state.withLock { $0.senders.removeAll { $0.id == id } }
  }

  private func madeRoom() {
    for sender in state.withLock({ $0.senders }) { sender.notify() }
  }
}

/// The same by a shorter name. Where a file imports Foundation, whose `Pipe` is another, write
/// ``EventPipe``.
public typealias Pipe = EventPipe

/// One machine's end of an ``EventPipe``: the events that it has not taken yet.
package final class PipeReceiver<Event: DSLCompatible>: Sendable {
  private let queue = Locked(Queue<Event>())
  private let capacity: Int
  fileprivate let notify: @Sendable () -> Void
  private let madeRoom: @Sendable () -> Void

  fileprivate init(
    capacity: Int, notify: @escaping @Sendable () -> Void, madeRoom: @escaping @Sendable () -> Void
  ) {
    self.capacity = capacity
    self.notify = notify
    self.madeRoom = madeRoom
  }

  fileprivate var isFull: Bool { queue.withLock { $0.count >= capacity } }
  fileprivate func append(_ event: Event) { queue.withLock { $0.append(event) } }
  fileprivate func close() -> [Event] { queue.withLock { $0.removeAll() } }

  /// Takes the oldest event.
  package func next() -> Event? {
    let (event, wasFull) = queue.withLock { queue in
      let full = queue.count >= capacity
      return (queue.popFirst(), full)
    }
    if wasFull { madeRoom() }
    return event
  }
}

/// What room a pipe has.
enum PipeRoom: Sendable {
  /// A sender has to wait.
  case none
  /// There is some now; other senders may take it.
  case forNow
  /// There is some until this sender has sent: nobody else sends into it.
  case untilSent
}

/// A pipe that rules send into: whether it has room.
struct SentPipe: Sendable {
  /// Which one it is: several rules may share it.
  let id: ObjectIdentifier
  let room: @Sendable () -> PipeRoom
  /// Asks the pipe to say when it has room again; the result takes that back.
  let watchRoom: @Sendable (@escaping @Sendable () -> Void) -> @Sendable () -> Void

  init<Event>(_ pipe: EventPipe<Event>) {
    id = ObjectIdentifier(pipe)
    room = { pipe.room }
    watchRoom = { notify in
      let id = pipe.watchRoom(notify)
      return { pipe.unwatchRoom(id) }
    }
  }
}

/// The pipes that a machine sends into, each once, and which of them may have no room.
///
/// A step costs what the pipes cost that were sent into since the one before, and not what all of them do.
struct SentPipes {
  private let pipes: [SentPipe]
  /// The places of those that are asked before the next step.
  private var doubtful: [Int]
  private var isDoubtful: [Bool]

  init(_ pipes: [SentPipe]) {
    self.pipes = pipes
    doubtful = Array(pipes.indices)
    isDoubtful = Array(repeating: true, count: pipes.count)
  }

  var all: [SentPipe] { pipes }

  /// Whether none of them is full.
  mutating func haveRoom() -> Bool {
    var next = doubtful.count
    while next > 0 {
      next -= 1
      let place = doubtful[next]
      switch pipes[place].room() {
      case .none: return false
      case .forNow: break
      case .untilSent:
        isDoubtful[place] = false
        // Those behind it have been asked.
        doubtful.swapAt(next, doubtful.count - 1)
        doubtful.removeLast()
      }
    }
    return true
  }

  /// A rule has sent into this one, or may have.
  mutating func sent(into place: Int) {
    guard !isDoubtful[place] else { return }
    isDoubtful[place] = true
    doubtful.append(place)
  }
}

extension Runtime {
  /// The pipes that its rules send into, each once.
  var sentPipes: [SentPipe] {
    var seen: Set<ObjectIdentifier> = []
    var pipes: [SentPipe] = []
    for sender in senders where seen.insert(sender.pipe.id).inserted { pipes.append(sender.pipe) }
    for sender in eventSenders where seen.insert(sender.pipe.id).inserted {
      pipes.append(sender.pipe)
    }
    return pipes
  }
}
