import CProcess
import Glibc

/// The loop of the one thread that owns a process's sockets: sockets, descriptors, timers, posts.
///
/// It polls the sockets' descriptors itself: `zmq_poll` asks every socket twice a turn, by a system
/// call each.
///
/// Everything that it calls back runs on the thread that called `run`. Only its ``handle`` may be
/// used from elsewhere.
package final class PollLoop {
  /// A registered socket or descriptor.
  package struct Registration: Hashable, Sendable { fileprivate let id: UInt64 }

  private struct Source {
    let id: UInt64
    let socket: Socket?
    let descriptor: Int32
    let onReadable: () -> Void

    var mayHaveInput: Bool { socket?.mayHaveInput == true }
  }

  /// Posts work to the loop from any thread.
  package let handle: LoopHandle
  private var sources: [Source] = []
  private var items: [pollfd] = []
  private var timers = TimerQueue()
  private var lastID: UInt64 = 0
  private var isStopped = false
  /// Called before each wait: what is queued is sent here, in one go.
  package var beforeWait: (() -> Void)?
  /// Where it answers `true` the loop does not wait: there is work left to take.
  package var hasWork: (() -> Bool)?

  package init() {
    handle = LoopHandle()
    let handle = handle
    add(descriptor: handle.descriptor) { handle.runPosted() }
  }

  /// Calls back while a message waits to be read, and now and then when none does.
  @discardableResult
  package func add(_ socket: Socket, onReadable: @escaping () -> Void) -> Registration {
    add(Source(id: nextID(), socket: socket, descriptor: -1, onReadable: onReadable))
  }

  /// Calls back while the descriptor is readable, or at its end.
  @discardableResult
  package func add(descriptor: Int32, onReadable: @escaping () -> Void) -> Registration {
    add(Source(id: nextID(), socket: nil, descriptor: descriptor, onReadable: onReadable))
  }

  package func remove(_ registration: Registration) {
    sources.removeAll { $0.id == registration.id }
    items = []
  }

  /// Calls back once, after the delay.
  @discardableResult
  package func schedule(after delay: Duration, _ work: @escaping () -> Void) -> TimerQueue.ID {
    timers.schedule(at: .now + delay, work)
  }

  package func cancel(_ timer: TimerQueue.ID) { timers.cancel(timer) }

  /// Makes `run` return after the current turn.
  package func stop() { isStopped = true }

  /// Runs until `stop`; not at all where that was called before.
  package func run() {
    while !isStopped { turn() }
  }

  private func turn() {
    beforeWait?()
    if isStopped { return }
    if items.isEmpty { items = sources.map(Self.item) }
    var isBusy = hasWork?() == true
    if !isBusy, sources.contains(where: \.mayHaveInput) {
      for source in sources { source.socket?.hasReceived = false }
      dispatch { _, source in source.mayHaveInput }
      if isStopped { return }
      // Mostly nothing was there, and the wait can follow at once; else it is the next turn's.
      isBusy =
        items.isEmpty || sources.contains { $0.mayHaveInput || $0.socket?.hasReceived == true }
    }
    if items.isEmpty { items = sources.map(Self.item) }
    let timeout = isBusy ? 0 : timers.millisecondsUntilNext(from: .now)
    if poll(&items, nfds_t(items.count), Int32(timeout)) > 0 {
      dispatch { item, source in item.revents != 0 || source.mayHaveInput }
    } else if isBusy {
      dispatch { _, source in source.mayHaveInput }
    }
    for work in timers.due(at: .now) { work() }
  }

  private func dispatch(_ isDue: (pollfd, Source) -> Bool) {
    // A callback may add or remove sources; then the rest waits for the next turn.
    let current = sources
    for index in current.indices {
      guard index < items.count else { return }
      if isDue(items[index], current[index]) { current[index].onReadable() }
      if isStopped { return }
    }
  }

  private func add(_ source: Source) -> Registration {
    sources.append(source)
    items = []
    return Registration(id: source.id)
  }

  private func nextID() -> UInt64 {
    lastID += 1
    return lastID
  }

  private static func item(_ source: Source) -> pollfd {
    pollfd(
      fd: source.socket?.descriptor ?? source.descriptor, events: Int16(POLLIN), revents: 0)
  }
}

/// The part of a loop that other threads may hold: it queues work and wakes the loop.
package final class LoopHandle: Sendable {
  private struct State {
    var posted: [@Sendable () -> Void] = []
    var hasEnded = false
  }

  let descriptor: Int32
  private let state = Locked(State())

  init() { descriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC)) }

  deinit { close(descriptor) }

  /// Runs the work on the loop's thread, in the order posted; at once where that has ended.
  package func post(_ work: @escaping @Sendable () -> Void) {
    let (wasEmpty, hasEnded) = state.withLock { state in
      if !state.hasEnded { state.posted.append(work) }
      return (state.posted.count == 1, state.hasEnded)
    }
    if hasEnded { work() } else if wasEmpty { _ = eventfd_write(descriptor, 1) }
  }

  /// Runs what is still posted. The loop must have stopped for good.
  func end() {
    let rest = state.withLock { state in
      state.hasEnded = true
      defer { state.posted = [] }
      return state.posted
    }
    for work in rest { work() }
  }

  fileprivate func runPosted() {
    var value: eventfd_t = 0
    _ = eventfd_read(descriptor, &value)
    let work = state.withLock { state in
      defer { state.posted = [] }
      return state.posted
    }
    for item in work { item() }
  }
}
