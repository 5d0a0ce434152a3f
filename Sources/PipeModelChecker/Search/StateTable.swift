/// A set of states of a few words. States are numbered in the order in which they were added.
///
/// The words of a state are adjacent, so that a lookup reads from one location in memory. For
/// states of many words, a ``StateTree`` needs less memory, but its lookups take four times as
/// long.
struct StateTable: ~Copyable {
  let width: Int
  private var states: ChunkedList<UInt64>
  private var index: HashIndex
  private var growthThreshold: Int
  private let budget: MemoryBudget
  /// The sum of values that are read only so that the processor loads them into its cache. If these
  /// values were unused, the compiler would remove the reads.
  private var prefetchSink: UInt64 = 0

  init(width: Int, budget: MemoryBudget) {
    self.width = width
    self.budget = budget
    states = ChunkedList(width: width)
    index = HashIndex(slotCount: HashIndex.minimumSlotCount)
    growthThreshold = index.slotCount / 2
    budget.reserve(index.byteCount)
  }

  deinit {
    budget.release(index.byteCount + states.capacity * width * 8)
    index.entries.deallocate()
  }

  /// Returns a pointer to the words of a state. The following states, up to the next multiple of
  /// `ChunkedList.chunkSize`, are adjacent in memory.
  @inline(__always)
  func pointer(at number: Int) -> UnsafePointer<UInt64> {
    UnsafePointer(states.pointer(at: number))
  }

  /// Reserves capacity for `more` further states. Returns `false` if this would exceed the memory
  /// budget.
  mutating func reserve(_ more: Int) -> Bool {
    while states.count + more > states.capacity {
      guard budget.allows(states.chunkByteCount) else { return false }
      states.addChunk()
      budget.reserve(states.chunkByteCount)
    }
    while states.count + more > growthThreshold {
      if index.slotCount < 1 << 30 && budget.allows(index.byteCount) {
        makeIndex(slotCount: 2 * index.slotCount)
      } else if growthThreshold < index.slotCount / 8 * 7 {
        // Allows a fuller index, which is slower, instead of ending the search for lack of memory.
        growthThreshold = index.slotCount / 8 * 7
      } else {
        return false
      }
    }
    return true
  }

  /// Adds the new states of a batch, writes their positions in the batch to `newPositions`, and
  /// returns the number of new states. Precondition: the capacity was reserved.
  ///
  /// Before the first lookup, the method reads the index entries of all states, and then the stored
  /// states that probably match. So the cache misses of these reads overlap.
  mutating func intern(
    _ batch: UnsafePointer<UInt64>, count batchCount: Int, hashes: UnsafeMutablePointer<UInt64>,
    candidates: UnsafeMutablePointer<Int32>, newPositions: UnsafeMutablePointer<Int32>
  ) -> Int {
    let index = index
    let width = width
    var touched: UInt64 = 0
    for position in 0..<batchCount {
      let hash = Self.hash(batch + position &* width, width)
      hashes[position] = hash
      touched &+= UInt64(index.entries[index.slot(of: hash)])
    }
    for position in 0..<batchCount {
      let number = index.candidate(hash: hashes[position])
      candidates[position] = Int32(truncatingIfNeeded: number)
      if number >= 0 { touched &+= states.pointer(at: number)[0] }
    }
    prefetchSink &+= touched
    var newCount = 0
    for position in 0..<batchCount {
      let state = batch + position &* width
      let candidate = Int(candidates[position])
      if candidate >= 0 && holds(state, at: candidate) { continue }
      let hash = hashes[position]
      let (number, slot) = find(state, hash: hash, in: index)
      if number >= 0 { continue }
      index.put(states.count, hash: hash, in: slot)
      states.append(state)
      newPositions[newCount] = Int32(truncatingIfNeeded: position)
      newCount &+= 1
    }
    return newCount
  }

  /// Adds a state that is not stored yet. Returns `false` if this would exceed the memory budget.
  mutating func add(_ state: UnsafePointer<UInt64>) -> Bool {
    guard reserve(1) else { return false }
    index.insert(states.count, hash: Self.hash(state, width))
    states.append(state)
    return true
  }

  /// Returns the number of a state; `nil` if the state is not stored.
  func number(of state: UnsafePointer<UInt64>) -> Int? {
    let number = find(state, hash: Self.hash(state, width), in: index).number
    return number < 0 ? nil : number
  }

  @inline(__always)
  private func holds(_ state: UnsafePointer<UInt64>, at number: Int) -> Bool {
    let other = states.pointer(at: number)
    for word in 0..<width where other[word] != state[word] { return false }
    return true
  }

  /// Returns the number and the slot of a state. If the state is not stored, the number is -1, and
  /// the slot is the free slot for the state.
  @inline(__always)
  private func find(
    _ state: UnsafePointer<UInt64>, hash: UInt64, in index: HashIndex
  ) -> (number: Int, slot: Int) {
    var slot = index.slot(of: hash)
    let tag = index.tag(hash)
    while true {
      let entry = index.entries[slot]
      if entry == 0 { return (-1, slot) }
      if index.mayMatch(entry, tag) {
        let number = index.number(entry)
        if holds(state, at: number) { return (number, slot) }
      }
      slot = index.nextSlot(slot)
    }
  }

  @inline(__always)
  private static func hash(_ state: UnsafePointer<UInt64>, _ width: Int) -> UInt64 {
    var hash: UInt64 = 0
    for word in 0..<width {
      hash = (hash ^ state[word]) &* 0x9E37_79B9_7F4A_7C15
      hash ^= hash &>> 32
    }
    hash = (hash ^ (hash &>> 29)) &* 0xBF58_476D_1CE4_E5B9
    return hash ^ (hash &>> 32)
  }

  private mutating func makeIndex(slotCount: Int) {
    index.entries.deallocate()
    budget.release(index.byteCount)
    growthThreshold = slotCount / 2
    let index = HashIndex(slotCount: slotCount)
    budget.reserve(index.byteCount)
    for number in 0..<states.count {
      index.insert(number, hash: Self.hash(states.pointer(at: number), width))
    }
    self.index = index
  }
}
