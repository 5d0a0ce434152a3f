import PipeSupport

/// Drives sockets, descriptors, timers and posted work on the one thread that owns a process's sockets.
///
/// The loop waits for the sockets' descriptors itself, since `zmq_poll` checks every socket twice a
/// turn, with one system call each. The cost of a turn depends on the amount of work, not on the
/// number of sockets.
///
/// All callbacks run on the thread that called `run`. Other threads may use only the ``handle``. A
/// source that was removed, cancelled or closed gets no more callbacks, not even in the same turn.
/// Callbacks for an owner end when the owner is deallocated.
package final class PollLoop {
  /// A registered socket or descriptor.
  package struct Registration: Hashable, Sendable { fileprivate let id: UInt64 }

  private final class Source {
    let id: UInt64
    let socket: Socket?
    let descriptor: Int32
    /// The resident that registered the source; see ``PollLoop/resident``.
    let resident: Int
    let onReadable: () -> Void
    // No run-time exclusivity checks for state that each turn touches: only the loop's thread uses it.
    /// Whether the source is among those to call back next.
    @exclusivity(unchecked)
    var isReady = false
    @exclusivity(unchecked)
    var isRemoved = false

    init(
      _ id: UInt64, _ socket: Socket?, _ descriptor: Int32, of resident: Int,
      _ onReadable: @escaping () -> Void
    ) {
      self.id = id
      self.resident = resident
      self.socket = socket
      self.descriptor = descriptor
      self.onReadable = onReadable
    }

    /// Disables the socket's callbacks.
    func disableCallbacks() {
      isRemoved = true
      socket?.onPossibleInput = nil
      socket?.onClose = nil
    }
  }

  /// Posts work to the loop from any thread.
  package let handle: LoopHandle
  private let waiter: EventWaiter
  @exclusivity(unchecked)
  private var sources: [UInt64: Source] = [:]
  /// Sources whose sockets may have a message that no descriptor signals.
  @exclusivity(unchecked)
  private var due: [Source] = []
  /// Sources to call back next.
  @exclusivity(unchecked)
  private var ready: [Source] = []
  @exclusivity(unchecked)
  private var timers = TimerQueue()
  private var lastID: UInt64 = 0
  @exclusivity(unchecked)
  private var isStopped = false
  /// Callbacks that take turns before each wait.
  @exclusivity(unchecked)
  private var turns: [TurnHandler] = []
  /// The resident whose work runs now, if several share the loop. Callbacks that it registers
  /// belong to the same resident. Work that other threads post belongs to the first resident, 0.
  @exclusivity(unchecked)
  private(set) var resident = 0
  /// Called whenever the work of another resident begins.
  @exclusivity(unchecked)
  package var onResidentChange: ((Int) -> Void)?

  private final class TurnHandler {
    let id: UInt64
    let resident: Int
    /// Takes one turn. Returns whether work is left.
    let take: () -> Bool
    @exclusivity(unchecked)
    var isRemoved = false

    init(_ id: UInt64, of resident: Int, take: @escaping () -> Bool) {
      self.id = id
      self.resident = resident
      self.take = take
    }
  }

  package init() {
    handle = LoopHandle()
    waiter = EventWaiter()
    let handle = handle
    add(descriptor: handle.descriptor) { handle.handleWakeUp() }
  }

  deinit {
    // Sockets may outlive the loop.
    for source in sources.values { source.disableCallbacks() }
  }

  /// Calls back while a message waits to be read, and sometimes when none does, until the socket is
  /// closed. Captured values are kept alive until then.
  @discardableResult
  package func add(_ socket: Socket, onReadable: @escaping () -> Void) -> Registration {
    let source = Source(nextID(), socket, socket.descriptor, of: resident, onReadable)
    socket.isInputNotified = false
    socket.onPossibleInput = { [unowned self, unowned source] in due.append(source) }
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

  /// Calls back while the descriptor is readable or at end of file. Captured values are kept alive
  /// until the registration is removed.
  @discardableResult
  package func add(descriptor: Int32, onReadable: @escaping () -> Void) -> Registration {
    add(Source(nextID(), nil, descriptor, of: resident, onReadable))
  }

  /// Adds a descriptor for an owner without keeping the owner alive.
  @discardableResult
  package func add<Owner: AnyObject>(
    descriptor: Int32, for owner: Owner, onReadable: @escaping (Owner) -> Void
  ) -> Registration {
    add(descriptor: descriptor) { [weak owner] in if let owner { onReadable(owner) } }
  }

  /// Calls back before each wait, so that the owner can send its queue in one go.
  /// - Parameter hasWork: Returns whether work is left. If so, the loop does not wait.
  @discardableResult
  package func addTurnHandler<Owner: AnyObject>(
    for owner: Owner, hasWork: @escaping (Owner) -> Bool, take: @escaping (Owner) -> Void
  ) -> Registration {
    let id = nextID()
    turns.append(
      TurnHandler(id, of: resident) { [weak owner] in
        guard let owner else { return false }
        take(owner)
        return hasWork(owner)
      })
    return Registration(id: id)
  }

  /// Performs work on behalf of one of the residents that share the loop.
  package func runAsResident<Result, Failure: Error>(
    _ number: Int, _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let former = resident
    enter(number)
    defer { enter(former) }
    return try body()
  }

  private func enter(_ number: Int) {
    guard number != resident else { return }
    resident = number
    onResidentChange?(number)
  }

  package func remove(_ registration: Registration) {
    if let place = turns.firstIndex(where: { $0.id == registration.id }) {
      turns.remove(at: place).isRemoved = true
    }
    guard let source = sources.removeValue(forKey: registration.id) else { return }
    source.disableCallbacks()
    due.removeAll { $0 === source }
    waiter.remove(source.descriptor, source.id)
  }

  /// Calls back once, after the delay. Captured values are kept alive until then.
  @discardableResult
  package func schedule(after delay: Duration, _ work: @escaping () -> Void) -> TimerQueue.ID {
    let time = BootClock.nanoseconds + delay.clampedNanoseconds
    guard resident != 0 else { return timers.schedule(at: time, work) }
    return timers.schedule(at: time) { [unowned self, resident] in
      enter(resident)
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

  /// Runs until `stop` is called. Returns at once if it was called before.
  package func run() {
    handle.begin()
    while !isStopped { turn() }
  }

  private func turn() {
    var isBusy = false
    for one in turns where !one.isRemoved {
      enter(one.resident)
      let hasWork = one.take()
      if isStopped { return }
      if hasWork, !one.isRemoved { isBusy = true }
    }
    enter(0)
    if handle.hasPostedWork {
      handle.runPosted()
      isBusy = true
      if isStopped { return }
    } else if !isBusy, !due.isEmpty {
      // Usually no message is there, and the wait can follow at once. Otherwise the next turn continues.
      takeDue()
      isBusy = dispatch()
      if isStopped { return }
    }
    waiter.wait(until: isBusy ? 0 : timers.next) { number in
      if let source = sources[number] { makeReady(source) }
    }
    takeDue()
    dispatch()
    if isStopped || timers.next == nil { return }
    let now = BootClock.nanoseconds
    let newest = timers.newest
    while !isStopped, let work = timers.takeDue(at: now, through: newest) {
      enter(0)
      work()
    }
  }

  /// Calls back the sources that are ready.
  /// - Returns: Whether a message was received, or may have arrived.
  @discardableResult
  private func dispatch() -> Bool {
    guard !ready.isEmpty else { return false }
    // Iterates in place to reuse the array's storage.
    var hasReceived = false
    var place = 0
    while place < ready.count {
      let source = ready[place]
      place += 1
      source.isReady = false
      source.socket?.hasReceived = false
      // A callback may have removed it.
      if !source.isRemoved {
        enter(source.resident)
        source.onReadable()
      }
      if isStopped { break }
      hasReceived = hasReceived || source.socket?.hasReceived == true
    }
    // Not `removeAll`, which costs more for the usual single element.
    while !ready.isEmpty { ready.removeLast() }
    return hasReceived || due.contains { $0.socket?.mayHaveInput == true }
  }

  private func makeReady(_ source: Source) {
    guard !source.isReady else { return }
    source.isReady = true
    ready.append(source)
  }

  /// Marks the sources as ready whose sockets may have input.
  private func takeDue() {
    while let source = due.popLast() {
      guard let socket = source.socket else { continue }
      socket.isInputNotified = false
      // A callback may have read the message in the same turn.
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

/// Work that is due at instants of the steady clock. A sorted array suffices for some hundreds of timers.
package struct TimerQueue {
  /// The identity of a scheduled timer.
  package struct ID: Hashable, Sendable {
    fileprivate let due: Int64
    fileprivate let number: UInt64
  }

  private struct Entry {
    let id: ID
    let work: () -> Void
  }

  private var entries: [Entry] = []
  private var lastNumber: UInt64 = 0

  package init() {}

  /// When the next timer is due; `nil` if there is none. Unit: nanoseconds.
  package var next: Int64? { entries.first?.id.due }

  /// - Parameter due: When the work is due. Unit: nanoseconds.
  package mutating func schedule(at due: Int64, _ work: @escaping () -> Void) -> ID {
    lastNumber += 1
    let id = ID(due: due, number: lastNumber)
    entries.insert(Entry(id: id, work: work), at: place(of: id))
    return id
  }

  package mutating func cancel(_ id: ID) {
    let place = place(of: id)
    if place < entries.count, entries[place].id == id { entries.remove(at: place) }
  }

  /// The number of timers scheduled so far, which is also the number of the newest timer.
  package var newest: UInt64 { lastNumber }

  /// Removes the earliest timer that is due, and returns its work. Takes one timer at a time, since
  /// each may cancel another.
  /// - Parameters:
  ///   - now: The current time. Unit: nanoseconds.
  ///   - newest: The number of the newest timer to take. Newer timers stay, and so do timers that
  ///     are due after them.
  package mutating func takeDue(at now: Int64, through newest: UInt64) -> (() -> Void)? {
    guard let first = entries.first, first.id.due <= now, first.id.number <= newest else {
      return nil
    }
    return entries.removeFirst().work
  }

  /// Returns the index of a timer, or the index to insert it at: after timers that are due earlier,
  /// and after older timers that are due at the same time.
  private func place(of id: ID) -> Int {
    var low = 0
    var high = entries.count
    while low < high {
      let middle = (low + high) / 2
      let other = entries[middle].id
      if (other.due, other.number) < (id.due, id.number) { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
