/// An exact set of 64-bit keys, numbered in the order in which they came.
///
/// The keys lie densely by number. The index beside them is an open-addressing table of 32-bit entries: a
/// number, and in the bits that numbers do not need yet a tag of the key's hash, so that a probe hardly
/// ever reads a key that is another one. It is made again from the keys where it grows.
struct KeyTable: ~Copyable {
  private var keys = Chunked<UInt64>()
  private var index: UnsafeMutablePointer<UInt32>
  private var slotCount: Int
  private var largestCount: Int
  private var numberBits: UInt32
  private let budget: MemoryBudget
  /// What was read only so that it is in the cache: kept, so that the reads are not left out.
  private var sink: UInt64 = 0

  private static let fewestSlots = 1024

  init(budget: MemoryBudget) {
    self.budget = budget
    slotCount = 0
    largestCount = 0
    numberBits = 0
    index = .allocate(capacity: 1)
    makeIndex(slotCount: Self.fewestSlots)
  }

  deinit {
    budget.giveBack(slotCount * 4 + keys.capacity * 8)
    index.deallocate()
  }

  var count: Int { keys.count }

  /// A key by its number.
  @inline(__always)
  func key(_ number: Int) -> UInt64 { keys[number] }

  /// Where a key lies; those up to the next multiple of `Chunked.chunkSize` follow it.
  @inline(__always)
  func pointer(at number: Int) -> UnsafePointer<UInt64> { UnsafePointer(keys.pointer(at: number)) }

  @inline(__always)
  static func hash(_ key: UInt64) -> UInt64 {
    var hash = (key ^ (key &>> 32)) &* 0x9E37_79B9_7F4A_7C15
    hash = (hash ^ (hash &>> 29)) &* 0xBF58_476D_1CE4_E5B9
    return hash ^ (hash &>> 32)
  }

  /// Makes room for so many more keys; `false` where the budget does not allow it.
  mutating func reserve(_ more: Int) -> Bool {
    while keys.count + more > keys.capacity {
      guard budget.allows(Chunked<UInt64>.chunkByteCount) else { return false }
      addChunk()
    }
    while keys.count + more > largestCount {
      guard keys.count + more < Int(Int32.max) / 2, budget.allows(slotCount * 4) else {
        return false
      }
      makeIndex(slotCount: 2 * slotCount)
    }
    return true
  }

  /// The number of a key, a new one where it was not there. Takes memory beyond the budget where it must.
  @inline(__always)
  mutating func intern(_ key: UInt64) -> UInt32 {
    if keys.count == keys.capacity { addChunk() }
    if keys.count == largestCount { makeIndex(slotCount: 2 * slotCount) }
    return place(key, hash: Self.hash(key))
  }

  /// Interns keys for which there is room, and lists which of them are new, in their order.
  ///
  /// What they probe is read for all of them before the first is looked up: so the misses of the cache
  /// overlap.
  mutating func intern(
    _ batch: UnsafePointer<UInt64>, count batchCount: Int, hashes: UnsafeMutablePointer<UInt64>,
    fresh: UnsafeMutablePointer<Int32>
  ) -> Int {
    var touched: UInt64 = 0
    for position in 0..<batchCount {
      let hash = Self.hash(batch[position])
      hashes[position] = hash
      touched &+= UInt64(index[slot(of: hash)])
    }
    let numbers: UInt32 = (1 &<< numberBits) &- 1
    for position in 0..<batchCount {
      let number = Int(index[slot(of: hashes[position])] & numbers)
      touched &+= keys[number &- (number == 0 ? 0 : 1)]
    }
    sink &+= touched
    var freshCount = 0
    for position in 0..<batchCount {
      let before = keys.count
      _ = place(batch[position], hash: hashes[position])
      fresh[freshCount] = Int32(truncatingIfNeeded: position)
      freshCount &+= keys.count &- before
    }
    return freshCount
  }

  /// The number of a key, or `nil` where it is not there.
  func number(of key: UInt64) -> UInt32? {
    let hash = Self.hash(key)
    var slot = slot(of: hash)
    while true {
      let entry = index[slot]
      if entry == 0 { return nil }
      let number = candidate(entry, hash)
      if number >= 0 && keys[number] == key { return UInt32(number) }
      slot = next(slot)
    }
  }

  /// Gives every key another value: none may become equal to another one.
  mutating func replaceKeys(_ change: (UInt64) -> UInt64) {
    for number in 0..<keys.count { keys[number] = change(keys[number]) }
    makeIndex(slotCount: slotCount)
  }

  @inline(__always)
  private mutating func place(_ key: UInt64, hash: UInt64) -> UInt32 {
    var slot = slot(of: hash)
    while true {
      let entry = index[slot]
      if entry == 0 { break }
      let number = candidate(entry, hash)
      if number >= 0 && keys[number] == key { return UInt32(truncatingIfNeeded: number) }
      slot = next(slot)
    }
    let number = UInt32(truncatingIfNeeded: keys.count)
    index[slot] = tag(hash) | (number &+ 1)
    keys.append(key)
    return number
  }

  @inline(__always)
  private func slot(of hash: UInt64) -> Int {
    Int(truncatingIfNeeded: hash.multipliedFullWidth(by: UInt64(slotCount)).high)
  }

  @inline(__always)
  private func next(_ slot: Int) -> Int { slot &+ 1 == slotCount ? 0 : slot &+ 1 }

  @inline(__always)
  private func tag(_ hash: UInt64) -> UInt32 {
    UInt32(truncatingIfNeeded: hash) &<< numberBits
  }

  /// The number in an entry whose tag is that of the hash, or a negative one.
  @inline(__always)
  private func candidate(_ entry: UInt32, _ hash: UInt64) -> Int {
    if (entry ^ tag(hash)) &>> numberBits != 0 { return -1 }
    return Int(entry & ((1 &<< numberBits) &- 1)) &- 1
  }

  private mutating func addChunk() {
    keys.addChunk()
    budget.take(Chunked<UInt64>.chunkByteCount)
  }

  private mutating func makeIndex(slotCount: Int) {
    index.deallocate()
    budget.giveBack(self.slotCount * 4)
    self.slotCount = slotCount
    largestCount = slotCount / 4 * 3
    numberBits = UInt32(Int.bitWidth - largestCount.leadingZeroBitCount)
    index = .allocate(capacity: slotCount)
    index.initialize(repeating: 0, count: slotCount)
    budget.take(slotCount * 4)
    for number in 0..<keys.count {
      let hash = Self.hash(keys[number])
      var slot = slot(of: hash)
      while index[slot] != 0 { slot = next(slot) }
      index[slot] = tag(hash) | UInt32(truncatingIfNeeded: number &+ 1)
    }
  }
}
