/// A set of 64-bit keys, which are numbered in the order in which they were added.
///
/// The keys are stored by number, and a ``HashIndex`` finds the number of a key. When the index
/// grows, it is rebuilt from the keys.
struct KeyTable: ~Copyable {
  private var keys = ChunkedList<UInt64>()
  private var index: HashIndex
  private var growthThreshold = 0
  private let budget: MemoryBudget
  /// The sum of values that are read only so that the processor loads them into its cache. If these
  /// values were unused, the compiler would remove the reads.
  private var prefetchSink: UInt64 = 0

  init(budget: MemoryBudget) {
    self.budget = budget
    index = HashIndex(slotCount: HashIndex.minimumSlotCount)
    growthThreshold = index.slotCount / 2
    budget.reserve(index.byteCount)
  }

  deinit {
    budget.release(index.byteCount + keys.capacity * 8)
    index.entries.deallocate()
  }

  /// Returns the key with the given number.
  @inline(__always)
  func key(_ number: Int) -> UInt64 { keys[number] }

  /// Returns a pointer to a key. The following keys, up to the next multiple of
  /// `ChunkedList.chunkSize`, are adjacent in memory.
  @inline(__always)
  func pointer(at number: Int) -> UnsafePointer<UInt64> { UnsafePointer(keys.pointer(at: number)) }

  @inline(__always)
  static func hash(_ key: UInt64) -> UInt64 {
    var hash = (key ^ (key &>> 32)) &* 0x9E37_79B9_7F4A_7C15
    hash = (hash ^ (hash &>> 29)) &* 0xBF58_476D_1CE4_E5B9
    return hash ^ (hash &>> 32)
  }

  /// Reserves capacity for `more` further keys. Returns `false` if this would exceed the memory
  /// budget.
  mutating func reserve(_ more: Int) -> Bool {
    while keys.count + more > keys.capacity {
      guard budget.allows(keys.chunkByteCount) else { return false }
      addChunk()
    }
    while keys.count + more > growthThreshold {
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

  /// Returns the number of a key, and adds the key if it is new. May exceed the memory budget.
  @inline(__always)
  mutating func intern(_ key: UInt64) -> UInt32 {
    if keys.count == keys.capacity { addChunk() }
    if keys.count == growthThreshold { makeIndex(slotCount: 2 * index.slotCount) }
    let hash = Self.hash(key)
    let (number, slot) = find(key, hash: hash, in: index)
    if number >= 0 { return UInt32(truncatingIfNeeded: number) }
    index.put(keys.count, hash: hash, in: slot)
    keys.append(key)
    return UInt32(truncatingIfNeeded: keys.count &- 1)
  }

  /// Adds the new keys of a batch, writes their positions in the batch to `newPositions`, and
  /// returns the number of new keys. Precondition: the capacity was reserved.
  ///
  /// Before the first lookup, the method reads the index entries of all keys, and then the stored
  /// keys that probably match. So the cache misses of these reads overlap.
  mutating func intern(
    _ batch: UnsafePointer<UInt64>, count batchCount: Int, hashes: UnsafeMutablePointer<UInt64>,
    candidates: UnsafeMutablePointer<Int32>, newPositions: UnsafeMutablePointer<Int32>
  ) -> Int {
    let index = index
    var touched: UInt64 = 0
    for position in 0..<batchCount {
      let hash = Self.hash(batch[position])
      hashes[position] = hash
      touched &+= UInt64(index.entries[index.slot(of: hash)])
    }
    for position in 0..<batchCount {
      let number = index.candidate(hash: hashes[position])
      candidates[position] = Int32(truncatingIfNeeded: number)
      if number >= 0 { touched &+= keys[number] }
    }
    prefetchSink &+= touched
    var newCount = 0
    for position in 0..<batchCount {
      let candidate = Int(candidates[position])
      if candidate >= 0 && keys[candidate] == batch[position] { continue }
      let hash = hashes[position]
      let (number, slot) = find(batch[position], hash: hash, in: index)
      if number >= 0 { continue }
      index.put(keys.count, hash: hash, in: slot)
      keys.append(batch[position])
      newPositions[newCount] = Int32(truncatingIfNeeded: position)
      newCount &+= 1
    }
    return newCount
  }

  /// Returns the number of a key; `nil` if the key is not in the set.
  func number(of key: UInt64) -> UInt32? {
    let number = find(key, hash: Self.hash(key), in: index).number
    return number < 0 ? nil : UInt32(truncatingIfNeeded: number)
  }

  /// Replaces every key by the result of `change`, which must return different keys for different keys.
  mutating func replaceKeys(_ change: (UInt64) -> UInt64) {
    for number in 0..<keys.count { keys[number] = change(keys[number]) }
    makeIndex(slotCount: index.slotCount)
  }

  private mutating func addChunk() {
    keys.addChunk()
    budget.reserve(keys.chunkByteCount)
  }

  private mutating func makeIndex(slotCount: Int) {
    index.entries.deallocate()
    budget.release(index.byteCount)
    growthThreshold = slotCount / 2
    let index = HashIndex(slotCount: slotCount)
    budget.reserve(index.byteCount)
    for number in 0..<keys.count { index.insert(number, hash: Self.hash(keys[number])) }
    self.index = index
  }

  /// Returns the number and the slot of a key. If the key is not in the set, the number is -1, and
  /// the slot is the free slot for the key.
  @inline(__always)
  private func find(
    _ key: UInt64, hash: UInt64, in index: HashIndex
  ) -> (number: Int, slot: Int) {
    var slot = index.slot(of: hash)
    let tag = index.tag(hash)
    while true {
      let entry = index.entries[slot]
      if entry == 0 { return (-1, slot) }
      if index.mayMatch(entry, tag) {
        let number = index.number(entry)
        if keys[number] == key { return (number, slot) }
      }
      slot = index.nextSlot(slot)
    }
  }
}

/// A hash table with open addressing, which finds the numbers of keys. Each entry has 32 bits.
///
/// The low bits of an entry contain a key's number. The other bits contain a tag, which is a part
/// of the key's hash, so that a lookup rarely has to read a key that does not match. The index is a
/// small value, so that the compiler can keep it in registers in a loop.
struct HashIndex {
  let entries: UnsafeMutablePointer<UInt32>
  let slotCount: Int
  /// The number of low bits of an entry that contain the key's number.
  private let numberBits: UInt32

  /// The number of slots in a new table.
  static let minimumSlotCount = 1024

  /// Makes an empty index. The owner of the index must deallocate `entries`.
  init(slotCount: Int) {
    self.slotCount = slotCount
    numberBits = UInt32(Int.bitWidth - slotCount.leadingZeroBitCount)
    entries = .allocate(capacity: slotCount)
    entries.initialize(repeating: 0, count: slotCount)
  }

  /// The memory of the index. Unit: bytes.
  var byteCount: Int { slotCount * 4 }

  @inline(__always)
  func slot(of hash: UInt64) -> Int {
    Int(truncatingIfNeeded: hash.multipliedFullWidth(by: UInt64(slotCount)).high)
  }

  @inline(__always)
  func nextSlot(_ slot: Int) -> Int { slot &+ 1 == slotCount ? 0 : slot &+ 1 }

  @inline(__always)
  func tag(_ hash: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: hash) &<< numberBits }

  /// Returns whether an entry has this tag, so that the entry's key may be the wanted key.
  @inline(__always)
  func mayMatch(_ entry: UInt32, _ tag: UInt32) -> Bool { (entry ^ tag) &>> numberBits == 0 }

  /// Returns the number in an entry. The entry must not be empty (0).
  @inline(__always)
  func number(_ entry: UInt32) -> Int { Int(entry & ((1 &<< numberBits) &- 1)) &- 1 }

  /// Returns the number of the first key whose tag matches this hash; -1 if no tag matches.
  @inline(__always)
  func candidate(hash: UInt64) -> Int {
    var slot = slot(of: hash)
    let tag = tag(hash)
    while true {
      let entry = entries[slot]
      if entry == 0 { return -1 }
      if mayMatch(entry, tag) { return number(entry) }
      slot = nextSlot(slot)
    }
  }

  /// Stores a number in a free slot.
  @inline(__always)
  func put(_ number: Int, hash: UInt64, in slot: Int) {
    entries[slot] = tag(hash) | UInt32(truncatingIfNeeded: number &+ 1)
  }

  /// Adds the number of a key that is not in the index.
  @inline(__always)
  func insert(_ number: Int, hash: UInt64) {
    var slot = slot(of: hash)
    while entries[slot] != 0 { slot = nextSlot(slot) }
    put(number, hash: hash, in: slot)
  }
}
