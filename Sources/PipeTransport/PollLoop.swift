import PipeSupport

/// Handles a process's sockets, descriptors, timers and posted work on one thread.
///
/// The loop waits for the sockets' descriptors with epoll. `zmq_poll` would make two system calls
/// for each socket in each turn. With epoll, the cost of a turn depends on the amount of work, not
/// on the number of sockets.
///
/// All callbacks run on the thread that called `run`. Other threads may use only the ``handle``.
/// After a source is removed, cancelled or closed, its callback is not called again, not even in
/// the same turn. Callbacks for an owner end when the owner is deallocated.
package final class PollLoop {
  /// A registered socket or descriptor.
  package struct Registration: Hashable, Sendable { fileprivate let id: UInt64 }

  private final class Source {
    let id: UInt64
    let socket: Socket?
    let descriptor: Int32
    /// The number of the node that registered the source; see ``PollLoop/currentNodeNumber``.
    let nodeNumber: Int
    let onReadable: () -> Void
    // Exclusivity is not checked at run time, because each turn reads this property, and only the
    // loop's thread uses this object.
    /// Whether the source is in `readySources`.
    @exclusivity(unchecked)
    var isReady = false
    @exclusivity(unchecked)
    var isRemoved = false

    init(
      _ id: UInt64, _ socket: Socket?, _ descriptor: Int32, of resident: Int,
      _ onReadable: @escaping () -> Void
    ) {
      self.id = id
      self.nodeNumber = resident
      self.socket = socket
      self.descriptor = descriptor
      self.onReadable = onReadable
    }

    /// Marks the source as removed, and removes the callbacks of its socket.
    func disableCallbacks() {
      isRemoved = true
      socket?.onPossibleInput = nil
      socket?.onClose = nil
    }
  }

  /// The handle with which any thread posts work to the loop.
  package let handle: LoopHandle
  private let waiter: EventWaiter
  @exclusivity(unchecked)
  private var sources: [UInt64: Source] = [:]
  /// Sources whose sockets may have a message although their descriptors are not readable.
  @exclusivity(unchecked)
  private var possiblyReadySources: [Source] = []
  /// The sources whose callbacks the loop calls next.
  @exclusivity(unchecked)
  private var readySources: [Source] = []
  @exclusivity(unchecked)
  private var timers = TimerQueue()
  private var lastID: UInt64 = 0
  @exclusivity(unchecked)
  private var isStopped = false
  /// The handlers that the loop calls before each wait.
  @exclusivity(unchecked)
  private var turnHandlers: [TurnHandler] = []
  /// The number of the node whose work runs now: 0 for the node of the process, or the number of an
  /// embedded coordinator. An embedded coordinator shares the process and its loop. A callback
  /// belongs to the node that registered the callback. Work that other threads post belongs to node
  /// 0.
  @exclusivity(unchecked)
  private(set) var currentNodeNumber = 0
  /// Called with the new value whenever ``currentNodeNumber`` changes.
  @exclusivity(unchecked)
  package var onCurrentNodeChange: ((Int) -> Void)?

  private final class TurnHandler {
    let id: UInt64
    let nodeNumber: Int
    /// Calls `beforeWait` once for the owner. Returns whether the owner has work left.
    let run: () -> Bool
    @exclusivity(unchecked)
    var isRemoved = false

    init(_ id: UInt64, of resident: Int, run: @escaping () -> Bool) {
      self.id = id
      self.nodeNumber = resident
      self.run = run
    }
  }

  package init() {
    handle = LoopHandle()
    waiter = EventWaiter()
    let handle = handle
    add(descriptor: handle.descriptor) { handle.handleWakeUp() }
  }

  deinit {
    // Sockets may outlive the loop, and must not call the loop then.
    for source in sources.values { source.disableCallbacks() }
  }

  /// Calls `onReadable` whenever the socket may have a message to read, until the socket is closed.
  /// `onReadable` may be called although no message is waiting. The loop retains the callback until
  /// the socket is closed.
  @discardableResult
  package func add(_ socket: Socket, onReadable: @escaping () -> Void) -> Registration {
    let source = Source(nextID(), socket, socket.descriptor, of: currentNodeNumber, onReadable)
    socket.isInputNotified = false
    socket.onPossibleInput = { [unowned self, unowned source] in possiblyReadySources.append(source)
    }
    if socket.mayHaveInput { socket.notifyPossibleInput() }
    let registration = add(source)
    socket.onClose = { [unowned self] in remove(registration) }
    return registration
  }

  /// Adds a socket for an owner without keeping the owner alive.
  @discardableResult
  package func add<Owner: AnyObject>(
    _ socket: Socket, for owner: Owner, onReadable: @escaping (Owner) -> Void
  ) -> Registration {
    add(socket) { [weak owner] in if let owner { onReadable(owner) } }
  }

  /// Calls `onReadable` in each turn in which the descriptor is readable or at end of file. The
  /// loop retains the callback until the registration is removed.
  @discardableResult
  package func add(descriptor: Int32, onReadable: @escaping () -> Void) -> Registration {
    add(Source(nextID(), nil, descriptor, of: currentNodeNumber, onReadable))
  }

  /// Adds a descriptor for an owner without keeping the owner alive.
  @discardableResult
  package func add<Owner: AnyObject>(
    descriptor: Int32, for owner: Owner, onReadable: @escaping (Owner) -> Void
  ) -> Registration {
    add(descriptor: descriptor) { [weak owner] in if let owner { onReadable(owner) } }
  }

  /// Calls `beforeWait` before each wait, so that the owner can send all of its queued messages
  /// together.
  /// - Parameter hasWork: Returns whether work is left. If so, the loop does not wait.
  @discardableResult
  package func addTurnHandler<Owner: AnyObject>(
    for owner: Owner, hasWork: @escaping (Owner) -> Bool, beforeWait: @escaping (Owner) -> Void
  ) -> Registration {
    let id = nextID()
    turnHandlers.append(
      TurnHandler(id, of: currentNodeNumber) { [weak owner] in
        guard let owner else { return false }
        beforeWait(owner)
        return hasWork(owner)
      })
    return Registration(id: id)
  }

  /// Runs `body` as work of the node with this number; see ``currentNodeNumber``.
  package func run<Result, Failure: Error>(
    asNode number: Int, _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let former = currentNodeNumber
    enter(number)
    defer { enter(former) }
    return try body()
  }

  private func enter(_ number: Int) {
    guard number != currentNodeNumber else { return }
    currentNodeNumber = number
    onCurrentNodeChange?(number)
  }

  package func remove(_ registration: Registration) {
    if let index = turnHandlers.firstIndex(where: { $0.id == registration.id }) {
      turnHandlers.remove(at: index).isRemoved = true
    }
    guard let source = sources.removeValue(forKey: registration.id) else { return }
    source.disableCallbacks()
    possiblyReadySources.removeAll { $0 === source }
    waiter.remove(source.descriptor, source.id)
  }

  /// Runs the work once, after the delay. The loop retains the closure until the work has run or
  /// the timer is cancelled.
  @discardableResult
  package func schedule(after delay: Duration, _ work: @escaping () -> Void) -> TimerQueue.ID {
    let time = BootClock.nanoseconds + delay.clampedNanoseconds
    guard currentNodeNumber != 0 else { return timers.schedule(at: time, work) }
    return timers.schedule(at: time) { [unowned self, currentNodeNumber] in
      enter(currentNodeNumber)
      work()
    }
  }

  /// Schedules a timer for an owner without keeping the owner alive.
  @discardableResult
  package func schedule<Owner: AnyObject>(
    after delay: Duration, for owner: Owner, _ work: @escaping (Owner) -> Void
  ) -> TimerQueue.ID {
    schedule(after: delay) { [weak owner] in if let owner { work(owner) } }
  }

  package func cancel(_ timer: TimerQueue.ID) { timers.cancel(timer) }

  /// Makes `run` return after the current turn.
  package func stop() { isStopped = true }

  /// Runs the loop until `stop` is called. Returns at once if `stop` was already called.
  package func run() {
    handle.begin()
    while !isStopped { runTurn() }
  }

  private func runTurn() {
    var isBusy = false
    for handler in turnHandlers where !handler.isRemoved {
      enter(handler.nodeNumber)
      let hasWork = handler.run()
      if isStopped { return }
      if hasWork, !handler.isRemoved { isBusy = true }
    }
    enter(0)
    if handle.hasPostedWork {
      handle.runPosted()
      isBusy = true
      if isStopped { return }
    } else if !isBusy, !possiblyReadySources.isEmpty {
      // Usually the sockets in `possiblyReadySources` have no message, and the loop can wait now.
      // If a socket has a message, the loop takes another turn without a wait.
      checkPossiblyReady()
      isBusy = dispatch()
      if isStopped { return }
    }
    waiter.wait(until: isBusy ? 0 : timers.nextDueTime) { number in
      if let source = sources[number] { makeReady(source) }
    }
    checkPossiblyReady()
    dispatch()
    if isStopped || timers.nextDueTime == nil { return }
    let now = BootClock.nanoseconds
    let newest = timers.newestNumber
    while !isStopped, let work = timers.takeDue(at: now, through: newest) {
      enter(0)
      work()
    }
  }

  /// Calls the callbacks of the ready sources.
  /// - Returns: Whether a message was received, or may be waiting.
  @discardableResult
  private func dispatch() -> Bool {
    guard !readySources.isEmpty else { return false }
    // Iterates in place to reuse the array's storage.
    var hasReceived = false
    var index = 0
    while index < readySources.count {
      let source = readySources[index]
      index += 1
      source.isReady = false
      source.socket?.hasReceived = false
      // An earlier callback may have removed the source.
      if !source.isRemoved {
        enter(source.nodeNumber)
        source.onReadable()
      }
      if isStopped { break }
      hasReceived = hasReceived || source.socket?.hasReceived == true
    }
    // For a single element, which is the usual case, `removeAll` costs more than this loop.
    while !readySources.isEmpty { readySources.removeLast() }
    return hasReceived || possiblyReadySources.contains { $0.socket?.mayHaveInput == true }
  }

  private func makeReady(_ source: Source) {
    guard !source.isReady else { return }
    source.isReady = true
    readySources.append(source)
  }

  /// Moves the sources whose sockets may have input from `possiblyReadySources` to `readySources`.
  private func checkPossiblyReady() {
    while let source = possiblyReadySources.popLast() {
      guard let socket = source.socket else { continue }
      socket.isInputNotified = false
      // A callback may have read the socket's message in the same turn.
      if socket.mayHaveInput { makeReady(source) }
    }
  }

  private func add(_ source: Source) -> Registration {
    sources[source.id] = source
    waiter.add(source.descriptor, source.id)
    return Registration(id: source.id)
  }

  private func nextID() -> UInt64 {
    lastID += 1
    return lastID
  }
}

/// A queue of timers on the boot clock, sorted by time. A sorted array is fast enough for some
/// hundreds of timers.
package struct TimerQueue {
  /// The identity of a scheduled timer.
  package struct ID: Hashable, Sendable {
    fileprivate let dueTime: Int64
    fileprivate let number: UInt64
  }

  private struct Entry {
    let id: ID
    let work: () -> Void
  }

  private var entries: [Entry] = []
  private var lastNumber: UInt64 = 0

  package init() {}

  /// The time at which the next timer is due; `nil` if there is none. Unit: nanoseconds.
  package var nextDueTime: Int64? { entries.first?.id.dueTime }

  /// Adds a timer. Timers with equal times are due in the order in which they were added.
  /// - Parameter due: The time at which the work is due. Unit: nanoseconds.
  package mutating func schedule(at due: Int64, _ work: @escaping () -> Void) -> ID {
    lastNumber += 1
    let id = ID(dueTime: due, number: lastNumber)
    entries.insert(Entry(id: id, work: work), at: index(of: id))
    return id
  }

  package mutating func cancel(_ id: ID) {
    let index = index(of: id)
    if index < entries.count, entries[index].id == id { entries.remove(at: index) }
  }

  /// The number of timers scheduled so far, which is also the number of the newest timer.
  package var newestNumber: UInt64 { lastNumber }

  /// Removes the earliest timer if it is due, and returns the timer's work. Removes only one timer,
  /// since this work may cancel other timers.
  /// - Parameters:
  ///   - now: The current time. Unit: nanoseconds.
  ///   - newest: The highest number that the removed timer may have. If the earliest timer has a
  ///     higher number, no timer is removed.
  package mutating func takeDue(at now: Int64, through newest: UInt64) -> (() -> Void)? {
    guard let first = entries.first, first.id.dueTime <= now, first.id.number <= newest else {
      return nil
    }
    return entries.removeFirst().work
  }

  /// Returns the index of a timer, or the index at which to insert the timer. Timers are sorted by
  /// time, then by number.
  private func index(of id: ID) -> Int {
    var low = 0
    var high = entries.count
    while low < high {
      let middle = (low + high) / 2
      let other = entries[middle].id
      if (other.dueTime, other.number) < (id.dueTime, id.number) {
        low = middle + 1
      } else {
        high = middle
      }
    }
    return low
  }
}
