import PipeSupport
import Synchronization

/// The states that one iterator has not read yet, in a ring buffer with one writer and one reader.
///
/// The writer is the drainer of the ``MachineRun``, which writes under the run's lock. The reader
/// is the task of the iterator. Neither side acquires a lock of the ring, unless one side has to
/// wait for the other side.
@usableFromInline
final class StateReader<State: Sendable>: @unchecked Sendable {
  // The counts guard the slots: the slots from `publishedReadCount` to `writtenCount` belong to the
  // reader, and all other slots belong to the writer.
  @usableFromInline let slots: UnsafeMutablePointer<State>
  @usableFromInline let slotCount: Int
  private let capacity: Int

  // Rarely written fields come first, followed by the writer's fields and the reader's fields on
  // separate cache lines. So neither side waits for a cache line with fields that only the other
  // side uses.
  /// Whether the reader waits for a state.
  @usableFromInline let isWaiting = Atomic(false)
  /// Whether the machine waits for capacity.
  @usableFromInline let isBlocking = Atomic(false)
  private let isFinished = Atomic(false)
  private let isEnded = Atomic(false)
  private let waiter = Locked<CheckedContinuation<Void, Never>?>(nil)

  private let writerPadding = CacheLinePadding()
  @usableFromInline let writtenCount = Atomic(0)
  @usableFromInline
  @exclusivity(unchecked)
  var writeSlot = 0
  @usableFromInline
  @exclusivity(unchecked)
  var cachedReadCount = 0

  private let readerPadding = CacheLinePadding()
  @usableFromInline let publishedReadCount = Atomic(0)
  @usableFromInline
  @exclusivity(unchecked)
  var readSlot = 0
  /// The number of states that have been read. Only the reader changes this number. ``readNow()``
  /// copies the number to `publishedReadCount` in batches.
  @usableFromInline let readCount = Atomic(0)
  @usableFromInline
  @exclusivity(unchecked)
  var cachedWrittenCount = 0

  private let trailingPadding = CacheLinePadding()
  @usableFromInline let signalCapacity: @Sendable () -> Void
  private let onEnd: @Sendable (StateReader) -> Void

  /// Creates a reader of these states and of all later states.
  /// - Parameter capacity: The number of unread states at which the reader is full. If a step is
  ///   running while the reader is made, the step may write one more state.
  init(
    states: [State], capacity: Int, signalCapacity: @escaping @Sendable () -> Void,
    ended: @escaping @Sendable (StateReader) -> Void
  ) {
    self.capacity = capacity
    slotCount = capacity + 2
    slots = .allocate(capacity: slotCount)
    self.signalCapacity = signalCapacity
    self.onEnd = ended
    for state in states { write(state) }
  }

  deinit {
    let count = writtenCount.load(ordering: .acquiring) - readCount.load(ordering: .relaxed)
    for offset in 0..<count { (slots + (readSlot + offset) % slotCount).deinitialize(count: 1) }
    slots.deallocate()
  }
}

// Functions that the writer calls.
extension StateReader {
  /// Adds a state. If the reader is waiting, the caller must then call ``wake()``, after it has
  /// released its locks.
  @inlinable
  func write(_ state: State) {
    (slots + writeSlot).initialize(to: state)
    writeSlot = writeSlot + 1 == slotCount ? 0 : writeSlot + 1
    // Sequentially consistent, like the flags. So if the writer and the reader access an empty or a
    // full ring at the same time, at least one side sees the other side's change.
    writtenCount.store(
      writtenCount.load(ordering: .relaxed) &+ 1, ordering: .sequentiallyConsistent)
  }

  /// Whether the reader has reached the maximum lag. If so, `signalCapacity` will be called when
  /// there is capacity again.
  var isFull: Bool {
    guard isAtCapacity else { return false }
    isBlocking.store(true, ordering: .sequentiallyConsistent)
    return isAtCapacity
  }

  /// Whether the reader has reached the maximum lag. Unlike ``isFull``, this property does not
  /// request a call of `signalCapacity`.
  @usableFromInline
  var isAtCapacity: Bool {
    let count = writtenCount.load(ordering: .relaxed)
    if count - cachedReadCount < capacity { return false }
    cachedReadCount = publishedReadCount.load(ordering: .sequentiallyConsistent)
    return count - cachedReadCount >= capacity && !isEnded.load(ordering: .relaxed)
  }

  @usableFromInline
  func wake() {
    let continuation = waiter.withLock { waiter in
      isWaiting.store(false, ordering: .sequentiallyConsistent)
      defer { waiter = nil }
      return waiter
    }
    continuation?.resume()
  }

  /// Ends the iterator after it has read the remaining states.
  func finish() {
    isFinished.store(true, ordering: .sequentiallyConsistent)
    wake()
  }

  /// Ends reading: the iterator is deallocated, or its task is cancelled.
  func end() {
    isEnded.store(true, ordering: .sequentiallyConsistent)
    finish()
    onEnd(self)
  }
}

// Functions that the reader calls.
extension StateReader {
  /// The number of iterations that a reader spins before it looks for a new state again. All
  /// iterations together take about a microsecond.
  private static var maximumSpinCount: Int { 3000 }

  /// Returns the next state; `nil` if there is no unread state.
  ///
  /// The reader publishes its progress in batches, because each update transfers a cache line
  /// between processors. If the machine waits for capacity, or if there are no more states, the
  /// reader publishes its progress immediately. So the machine may wait for a reader whose lag is
  /// up to one batch less than ``capacity``. The wait ends when the reader reads the next state.
  @inlinable
  func readNow() -> State? {
    let count = readCount.load(ordering: .relaxed)
    if cachedWrittenCount == count {
      publishProgress()
      cachedWrittenCount = writtenCount.load(ordering: .sequentiallyConsistent)
      if cachedWrittenCount == count { return nil }
    }
    let state = (slots + readSlot).move()
    readSlot = readSlot + 1 == slotCount ? 0 : readSlot + 1
    readCount.store(count &+ 1, ordering: .relaxed)
    if (count &+ 1) % 32 == 0 || isBlocking.load(ordering: .relaxed) { publishProgress() }
    return state
  }

  @inlinable
  func publishProgress() {
    publishedReadCount.store(readCount.load(ordering: .relaxed), ordering: .sequentiallyConsistent)
    if isBlocking.load(ordering: .sequentiallyConsistent) { unblock() }
  }

  @usableFromInline
  func unblock() {
    if isBlocking.exchange(false, ordering: .sequentiallyConsistent) { signalCapacity() }
  }

  /// Waits for the next state. Returns `nil` at the end of the run.
  @usableFromInline
  nonisolated(nonsending)
    func readLater() async -> State?
  {
    if isEnded.load(ordering: .sequentiallyConsistent) { return nil }
    // Spins first: a busy machine will soon have more states, and one wake-up for many states is
    // cheaper than one for each.
    for _ in 0..<Self.maximumSpinCount where !isFinished.load(ordering: .relaxed) {}
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

  /// Waits until there may be a state to read, or until the run has ended.
  private nonisolated(nonsending)
    func wait() async
  {
    await withCheckedContinuation { continuation in
      waiter.withLock { waiter in
        precondition(waiter == nil, "Two tasks read the same iterator at the same time.")
        waiter = continuation
        isWaiting.store(true, ordering: .sequentiallyConsistent)
      }
      // Checks again, because a state or the end of the run may have arrived since the last check.
      if writtenCount.load(ordering: .sequentiallyConsistent) != readCount.load(ordering: .relaxed)
        || isFinished.load(ordering: .sequentiallyConsistent)
      {
        wake()
      }
    }
  }
}

/// Padding between fields that different threads write: two cache lines, because some processors
/// fetch lines in pairs.
private struct CacheLinePadding {
  let words: InlineArray<16, UInt64> = .init(repeating: 0)
}

/// Ends the reader when its iterator is deallocated.
@usableFromInline
final class StateReaderHandle<State: Sendable>: Sendable {
  @usableFromInline let reader: StateReader<State>

  init(_ reader: StateReader<State>) { self.reader = reader }

  deinit { reader.end() }
}

/// Writes a warning if a machine waits for an iterator that no task reads. Warns once per run.
final class ReaderWatch: Sendable {
  /// For each full reader, the number of states that it has read.
  typealias ReadCounts = [ObjectIdentifier: Int]

  /// The time after which a warning is written, if the machine waits for a reader that reads
  /// nothing.
  private static let stallTimeout = Duration.seconds(1)

  private let isWatching = Atomic(false)
  private let describeSubject: @Sendable () -> String
  private let clock = EffectClock.current
  private let warn = Warnings.tell

  /// Creates a watch that is not running yet.
  /// - Parameter subject: Returns the name of the machine or composite, for the warning.
  init(_ subject: @escaping @Sendable () -> String) { self.describeSubject = subject }

  /// Whether the watch is running, or has already warned.
  var hasBegun: Bool { isWatching.load(ordering: .relaxed) }

  /// Starts the watch. Called when the machine waits for readers.
  func begin(_ lag: @escaping @Sendable () -> ReadCounts) {
    guard !isWatching.exchange(true, ordering: .sequentiallyConsistent) else { return }
    Task { [self] in
      repeat {
        if await detectStall(lag) {
          return warn(
            "\(describeSubject()) waits for an iterator of its states that has not been read for "
              + "\(Self.stallTimeout.shortText); read the iterator, or release it")
        }
        isWatching.store(false, ordering: .sequentiallyConsistent)
        // While this task was still running, the machine may have started to wait again without
        // starting a new watch.
      } while !lag().isEmpty && !isWatching.exchange(true, ordering: .sequentiallyConsistent)
    }
  }

  /// Watches until no reader blocks the machine. Returns whether a reader blocks the machine and
  /// does not read.
  private func detectStall(_ lag: @Sendable () -> ReadCounts) async -> Bool {
    var before = lag()
    while !before.isEmpty {
      guard (try? await clock.sleep(for: Self.stallTimeout)) != nil else { return false }
      let now = lag()
      if before.contains(where: { now[$0.key] == $0.value }) { return true }
      before = now
    }
    return false
  }
}

extension PublishedStates {
  /// For each full reader, the number of states that it has read.
  var readCountsOfFullReaders: ReaderWatch.ReadCounts {
    Dictionary(
      uniqueKeysWithValues: readers.filter(\.isAtCapacity).map {
        // Includes the reads that the reader has not published to the machine yet.
        (ObjectIdentifier($0), $0.readCount.load(ordering: .relaxed))
      })
  }
}
