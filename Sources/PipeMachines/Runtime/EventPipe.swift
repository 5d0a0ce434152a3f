import PipeSupport

/// A bounded queue that carries events, in order, from the machines that send into it to the
/// machines that receive from it.
///
/// A receiver gets, in order, every event that is sent while the receiver is attached. An attached
/// receiver loses no event: if a receiver is full, a machine that sends into the pipe accepts no
/// further event until the receiver has capacity again.
///
/// A pipe has no receiver before the first receiver attaches, and after the last receiver has
/// finished. Such a pipe blocks no sender. It keeps the last ``capacity`` events for the next
/// receiver and discards older events. The first discarded event is reported; ``discarded`` counts
/// all discarded events.
///
/// In a node, this object is bound to a pipe of the topology. If the topology has no pipe for the
/// port, every event is discarded and counted, and the first discarded event is reported.
public final class EventPipe<Event: DSLCompatible>: Sendable {
  /// The name of the port, as a topology refers to it; `nil` for a pipe within the process.
  public let name: String?
  /// The maximum number of events that are queued for each receiver, or while there is no receiver.
  /// Unit: events. Default: 1024.
  public let capacity: Int

  /// The schema version in which the machine sends the receiver's events; `nil` if the version is
  /// not declared.
  package let schema: Int?

  /// Appends the JSON of an event. Only a node's host calls this function, always on the same
  /// thread.
  package let encode: (@Sendable (Event, inout [UInt8]) throws -> Void)?
  /// The cause that is reported for a step on an event of this pipe.
  let cause: String

  private struct State {
    var queuedEvents = Queue<Event>()
    var receivers: [PipeReceiver<Event>] = []
    var senders: [(id: Int, notify: @Sendable () -> Void)] = []
    var nextSender = 0
    var discardedCount: UInt64 = 0
    var outlet: (any PipeOutlet<Event>)?
  }

  private let state = Locked(State())
  private let warn = Warnings.tell

  /// The number of events that were discarded because there was no receiver and the pipe was full.
  public var discarded: UInt64 { state.withLock(\.discardedCount) }

  /// Makes a pipe within the process.
  public convenience init(capacity: Int = 1024) { self.init(name: nil, capacity: capacity) }

  package init(
    name: String?, capacity: Int = 1024, schema: Int? = nil,
    encode: (@Sendable (Event, inout [UInt8]) throws -> Void)? = nil
  ) {
    precondition(capacity > 0, "The capacity of a pipe must be at least 1, not \(capacity).")
    self.name = name
    self.capacity = capacity
    self.schema = schema
    self.encode = encode
    cause = name.map { "pipe \($0)" } ?? "pipe"
  }

  /// Whether a sender must wait for capacity.
  package var isFull: Bool { remainingCapacity == .none }

  var remainingCapacity: RemainingCapacity {
    let (outlet, full) = state.withLock { state -> ((any PipeOutlet<Event>)?, Bool) in
      if let outlet = state.outlet { return (outlet, false) }
      return (nil, state.receivers.contains { $0.isFull })
    }
    guard let outlet else { return full ? .none : .forNow }
    return outlet.isFull ? .none : .untilSent
  }

  /// Queues one event. The caller has checked ``isFull`` before its step, but not before each event
  /// of the step. So the queue can exceed its capacity by the events of one step.
  package func send(_ event: Event) {
    let (outlet, receivers, isFirstLoss) = state.withLock { state in
      var isFirstLoss = false
      if state.outlet == nil {
        if state.receivers.isEmpty { isFirstLoss = storeUndelivered(event, &state) }
        // Appends under the pipe's lock, so that all receivers get the events in the same order.
        for receiver in state.receivers { receiver.append(event) }
      }
      return (state.outlet, state.receivers, isFirstLoss)
    }
    outlet?.enqueue(event)
    for receiver in receivers { receiver.notify() }
    if isFirstLoss {
      warn(
        "\(pipeDescription) has no receiver and is full with \(capacity) events; the oldest events are "
          + "discarded")
    }
  }

  private var pipeDescription: String {
    name.map { "pipe '\($0)'" } ?? "a pipe of \(TypeName.of(Event.self)) events"
  }

  /// Stores an event for a later receiver.
  /// - Returns: Whether an older event was discarded for the first time.
  private func storeUndelivered(_ event: Event, _ state: inout State) -> Bool {
    state.queuedEvents.append(event)
    guard state.queuedEvents.count > capacity else { return false }
    _ = state.queuedEvents.popFirst()
    state.discardedCount += 1
    return state.discardedCount == 1
  }

  /// Forwards every event to the host's own pipe. Forwards the queued events first.
  package func bind(to outlet: any PipeOutlet<Event>) {
    let queuedEvents = state.withLock { state in
      state.outlet = outlet
      return state.queuedEvents.removeAll()
    }
    for event in queuedEvents { outlet.enqueue(event) }
  }
}

extension EventPipe {
  /// Adds a receiver. `notify` is called on the sender's thread whenever an event has arrived.
  package func attach(notify: @escaping @Sendable () -> Void) -> PipeReceiver<Event> {
    let receiver = PipeReceiver<Event>(capacity: capacity, notify: notify) { [weak self] in
      self?.signalCapacity()
    }
    let queuedEvents = state.withLock { state in
      state.receivers.append(receiver)
      let queuedEvents = state.queuedEvents.removeAll()
      for event in queuedEvents { receiver.append(event) }
      return queuedEvents
    }
    if !queuedEvents.isEmpty { notify() }
    return receiver
  }

  /// Removes a receiver. If there is no other receiver, the removed receiver's unprocessed events
  /// are kept for the next receiver.
  package func detach(_ receiver: PipeReceiver<Event>) {
    state.withLock { state in
      guard let index = state.receivers.firstIndex(where: { $0 === receiver }) else { return }
      state.receivers.remove(at: index)
      let left = receiver.close()
      if state.receivers.isEmpty { for event in left { state.queuedEvents.append(event) } }
    }
    signalCapacity()
  }

  /// Registers a callback that is called when a full pipe has capacity again. Returns the number
  /// for ``unwatchCapacity(_:)``.
  func watchCapacity(_ notify: @escaping @Sendable () -> Void) -> Int {
    state.withLock { state in
      state.nextSender += 1
      state.senders.append((state.nextSender, notify))
      return state.nextSender
    }
  }

  func unwatchCapacity(_ id: Int) {
    state.withLock { $0.senders.removeAll { $0.id == id } }
  }

  private func signalCapacity() {
    for sender in state.withLock({ $0.senders }) { sender.notify() }
  }
}

/// A shorter name for ``EventPipe``. In a file that imports Foundation, which has its own `Pipe`,
/// write ``EventPipe``.
public typealias Pipe = EventPipe

/// One machine's end of an ``EventPipe``: a queue of events that the machine has not processed yet.
package final class PipeReceiver<Event: DSLCompatible>: Sendable {
  private let queue = Locked(Queue<Event>())
  private let capacity: Int
  fileprivate let notify: @Sendable () -> Void
  private let signalCapacity: @Sendable () -> Void

  fileprivate init(
    capacity: Int, notify: @escaping @Sendable () -> Void,
    signalCapacity: @escaping @Sendable () -> Void
  ) {
    self.capacity = capacity
    self.notify = notify
    self.signalCapacity = signalCapacity
  }

  fileprivate var isFull: Bool { queue.withLock { $0.count >= capacity } }
  fileprivate func append(_ event: Event) { queue.withLock { $0.append(event) } }
  fileprivate func close() -> [Event] { queue.withLock { $0.removeAll() } }

  /// Removes and returns the oldest event; `nil` if there is none.
  package func next() -> Event? {
    let (event, wasFull) = queue.withLock { queue in
      let full = queue.count >= capacity
      return (queue.popFirst(), full)
    }
    if wasFull { signalCapacity() }
    return event
  }
}

/// The remaining capacity of a pipe.
enum RemainingCapacity: Sendable {
  /// The pipe is full: a sender must wait.
  case none
  /// The pipe has capacity now, but other senders may use it up.
  case forNow
  /// The pipe has capacity until this sender uses it, because there is no other sender.
  case untilSent
}

/// A pipe that a machine's rules send into, reduced to its identity and its capacity. Without the
/// event type, pipes of different event types can be in one list.
struct SendTarget: Sendable {
  /// The identity of the pipe, which several rules may share.
  let id: ObjectIdentifier
  let remainingCapacity: @Sendable () -> RemainingCapacity
  /// Registers a callback that is called when the pipe has capacity again. The returned function
  /// removes the callback.
  let watchCapacity: @Sendable (@escaping @Sendable () -> Void) -> @Sendable () -> Void

  init<Event>(_ pipe: EventPipe<Event>) {
    id = ObjectIdentifier(pipe)
    remainingCapacity = { pipe.remainingCapacity }
    watchCapacity = { notify in
      let id = pipe.watchCapacity(notify)
      return { pipe.unwatchCapacity(id) }
    }
  }
}

/// The pipes that a machine sends into, without duplicates. For each pipe, the list records whether
/// the pipe may be full.
///
/// The check before a step queries only the pipes that were sent into since the previous check, not
/// all pipes.
struct SendTargets {
  private let pipes: [SendTarget]
  /// The indices of the pipes to query before the next step.
  private var possiblyFullIndices: [Int]
  private var isPossiblyFull: [Bool]

  init(_ pipes: [SendTarget]) {
    self.pipes = pipes
    possiblyFullIndices = Array(pipes.indices)
    isPossiblyFull = Array(repeating: true, count: pipes.count)
  }

  var all: [SendTarget] { pipes }

  /// Returns whether all pipes have capacity.
  mutating func haveCapacity() -> Bool {
    var next = possiblyFullIndices.count
    while next > 0 {
      next -= 1
      let place = possiblyFullIndices[next]
      switch pipes[place].remainingCapacity() {
      case .none: return false
      case .forNow: break
      case .untilSent:
        isPossiblyFull[place] = false
        // The pipes at higher indices have already been queried.
        possiblyFullIndices.swapAt(next, possiblyFullIndices.count - 1)
        possiblyFullIndices.removeLast()
      }
    }
    return true
  }

  /// Records that a rule has, or may have, sent an event into a pipe.
  mutating func sent(into place: Int) {
    guard !isPossiblyFull[place] else { return }
    isPossiblyFull[place] = true
    possiblyFullIndices.append(place)
  }
}

extension Runtime {
  /// The pipes that the runtime's rules send into, without duplicates.
  var sendTargets: [SendTarget] {
    var seen: Set<ObjectIdentifier> = []
    var pipes: [SendTarget] = []
    for sender in stateSendRules where seen.insert(sender.pipe.id).inserted {
      pipes.append(sender.pipe)
    }
    for sender in eventSendRules where seen.insert(sender.pipe.id).inserted {
      pipes.append(sender.pipe)
    }
    return pipes
  }
}
