import PipeSupport
import Synchronization

/// The states that one iterator has not read yet: a ring with one writer and one reader.
///
/// The writer is whoever takes the machine's steps, under the lock of its ``MachineRun``; the reader
/// is the task of the iterator. Neither takes a lock while the other keeps up.
@usableFromInline
final class StateReader<State: Sendable>: @unchecked Sendable {
  // The counts guard the slots: those from `read` to `written` belong to the reader, the others to the
  // writer.
  @usableFromInline let slots: UnsafeMutablePointer<State>
  @usableFromInline let slotCount: Int
  private let capacity: Int

  // What is written seldom comes first, then the writer's part and the reader's, each on cache lines
  // of its own: neither is to wait for what it does not need.
  /// The reader waits for a state.
  @usableFromInline let isWaiting = Atomic(false)
  /// The machine waits for room.
  @usableFromInline let isBlocking = Atomic(false)
  private let isFinished = Atomic(false)
  private let isEnded = Atomic(false)
  private let waiting = Locked<CheckedContinuation<Void, Never>?>(nil)

  private let gap = CacheLines()
  @usableFromInline let written = Atomic(0)
  @usableFromInline
  @exclusivity(unchecked)
  var writeSlot = 0
  @usableFromInline
  @exclusivity(unchecked)
  var knownRead = 0

  private let nextGap = CacheLines()
  @usableFromInline let read = Atomic(0)
  @usableFromInline
  @exclusivity(unchecked)
  var readSlot = 0
  /// How many states have been read: the reader alone writes it. `read` follows it, see ``readNow()``.
  @usableFromInline let readCount = Atomic(0)
  @usableFromInline
  @exclusivity(unchecked)
  var knownWritten = 0

  private let lastGap = CacheLines()
  @usableFromInline let madeRoom: @Sendable () -> Void
  private let ended: @Sendable (StateReader) -> Void

  /// - Parameter capacity: How many states make the reader full. A step that is being taken while
  ///   the reader is made may write one more.
  init(
    states: [State], capacity: Int, madeRoom: @escaping @Sendable () -> Void,
    ended: @escaping @Sendable (StateReader) -> Void
  ) {
    self.capacity = capacity
    slotCount = capacity + 2
    slots = .allocate(capacity: slotCount)
    self.madeRoom = madeRoom
    self.ended = ended
    for state in states { write(state) }
  }

  deinit {
    let count = written.load(ordering: .acquiring) - readCount.load(ordering: .relaxed)
    for offset in 0..<count { (slots + (readSlot + offset) % slotCount).deinitialize(count: 1) }
    slots.deallocate()
  }
}

// What the writer calls.
extension StateReader {
  /// Adds a state; the caller then calls ``wake()`` outside its locks, if the reader waits.
  @inlinable
  func write(_ state: State) {
    (slots + writeSlot).initialize(to: state)
    writeSlot = writeSlot + 1 == slotCount ? 0 : writeSlot + 1
    // Sequentially consistent, as are the flags: of a writer and a reader that meet at an empty or
    // a full ring, one sees the other.
    written.store(
      written.load(ordering: .relaxed) &+ 1, ordering: .sequentiallyConsistent)
  }

  /// Whether the reader lags as far behind as it may. If so, ``madeRoom`` will be called.
  var isFull: Bool {
    guard hasNoRoom else { return false }
    isBlocking.store(true, ordering: .sequentiallyConsistent)
    return hasNoRoom
  }

  /// As ``isFull``, without asking to be told.
  @usableFromInline
  var hasNoRoom: Bool {
    let count = written.load(ordering: .relaxed)
    if count - knownRead < capacity { return false }
    knownRead = read.load(ordering: .sequentiallyConsistent)
    return count - knownRead >= capacity && !isEnded.load(ordering: .relaxed)
  }

  @usableFromInline
  func wake() {
    let continuation = waiting.withLock { waiting in
      isWaiting.store(false, ordering: .sequentiallyConsistent)
      defer { waiting = nil }
      return waiting
    }
    continuation?.resume()
  }

  /// Ends the iterator once it has read what there is.
  func finish() {
    isFinished.store(true, ordering: .sequentiallyConsistent)
    wake()
  }

  /// The iterator is gone, or its task is cancelled: it reads no more.
  func end() {
    isEnded.store(true, ordering: .sequentiallyConsistent)
    finish()
    ended(self)
  }
}

// What the reader calls.
extension StateReader {
  /// How often a reader without a state looks about before it yields: a microsecond or so.
  private static var patience: Int { 3000 }

  /// The next state, if it is there.
  ///
  /// Tells the writer how far it is by the batch, as that takes a cache line back and forth: at once
  /// where the machine waits for room, and where there is no more to read. So a machine may wait for
  /// a reader that lags a batch less behind than ``capacity``, until it reads the next state.
  @inlinable
  func readNow() -> State? {
    let count = readCount.load(ordering: .relaxed)
    if knownWritten == count {
      tellRead()
      knownWritten = written.load(ordering: .sequentiallyConsistent)
      if knownWritten == count { return nil }
    }
    let state = (slots + readSlot).move()
    readSlot = readSlot + 1 == slotCount ? 0 : readSlot + 1
    readCount.store(count &+ 1, ordering: .relaxed)
    if (count &+ 1) % 32 == 0 || isBlocking.load(ordering: .relaxed) { tellRead() }
    return state
  }

  @inlinable
  func tellRead() {
    read.store(readCount.load(ordering: .relaxed), ordering: .sequentiallyConsistent)
    if isBlocking.load(ordering: .sequentiallyConsistent) { unblock() }
  }

  @usableFromInline
  func unblock() {
    if isBlocking.exchange(false, ordering: .sequentiallyConsistent) { madeRoom() }
  }

  /// The next state, waiting for it; `nil` at the end.
  @usableFromInline
  nonisolated(nonsending)
    func readLater() async -> State?
  {
    if isEnded.load(ordering: .sequentiallyConsistent) { return nil }
    // A machine that is busy has more in a moment: to be woken once for many states is cheaper.
    for _ in 0..<Self.patience where !isFinished.load(ordering: .relaxed) {}
    if let state = readNow() { return state }
    await Task.yield()
    while true {
      if isEnded.load(ordering: .sequentiallyConsistent) { return nil }
      let isLast = isFinished.load(ordering: .sequentiallyConsistent)
      if let state = readNow() { return state }
      if isLast { return nil }
      await wait()
    }
  }

  /// Returns when there may be something to read.
  private nonisolated(nonsending)
    func wait() async
  {
    await withCheckedContinuation { continuation in
      waiting.withLock { waiting in
        precondition(waiting == nil, "An iterator is read by one task at a time.")
        waiting = continuation
        isWaiting.store(true, ordering: .sequentiallyConsistent)
      }
      // A state, or the end, may have come since.
      if written.load(ordering: .sequentiallyConsistent) != readCount.load(ordering: .relaxed)
        || isFinished.load(ordering: .sequentiallyConsistent)
      {
        wake()
      }
    }
  }
}

/// Room between fields that different threads write: two cache lines, which some processors fetch
/// together.
private struct CacheLines {
  let words: InlineArray<16, UInt64> = .init(repeating: 0)
}

/// Ends the reader when its iterator is gone.
@usableFromInline
final class StateReaderHandle<State: Sendable>: Sendable {
  @usableFromInline let reader: StateReader<State>

  init(_ reader: StateReader<State>) { self.reader = reader }

  deinit { reader.end() }
}

/// Tells of a machine that waits for an iterator of its states that nobody reads. Once for each run.
final class ReaderWatch: Sendable {
  /// How far the readers have come that have no room, by reader.
  typealias Lag = [ObjectIdentifier: Int]

  /// How long the machine waits without a read before that is told.
  private static let patience = Duration.seconds(1)

  private let begun = Atomic(false)
  private let subject: @Sendable () -> String
  private let clock = EffectClock.current
  private let tell = Warnings.tell

  /// - Parameter subject: Whose states they are.
  init(_ subject: @escaping @Sendable () -> String) { self.subject = subject }

  /// Whether it looks already, or has told all that it has to.
  var hasBegun: Bool { begun.load(ordering: .relaxed) }

  /// The machine waits for readers.
  func begin(_ lag: @escaping @Sendable () -> Lag) {
    guard !begun.exchange(true, ordering: .sequentiallyConsistent) else { return }
    Task { [self] in
      repeat {
        if await findsStandstill(lag) {
          return tell(
            "\(subject()) waits for an iterator of its states that has not been read for "
              + "\(Self.patience.shortText); read it, or let go of it")
        }
        begun.store(false, ordering: .sequentiallyConsistent)
        // The machine may have begun to wait again, and found that this task looks.
      } while !lag().isEmpty && !begun.exchange(true, ordering: .sequentiallyConsistent)
    }
  }

  /// Looks on until no reader keeps the machine waiting, or until one does that reads nothing.
  private func findsStandstill(_ lag: @Sendable () -> Lag) async -> Bool {
    var before = lag()
    while !before.isEmpty {
      guard (try? await clock.sleep(for: Self.patience)) != nil else { return false }
      let now = lag()
      if before.contains(where: { now[$0.key] == $0.value }) { return true }
      before = now
    }
    return false
  }
}

extension ShownStates {
  /// How far the readers have come that have no room.
  var lag: ReaderWatch.Lag {
    Dictionary(
      uniqueKeysWithValues: readers.filter(\.hasNoRoom).map {
        // What it has read, also where it has not told the machine yet.
        (ObjectIdentifier($0), $0.readCount.load(ordering: .relaxed))
      })
  }
}
