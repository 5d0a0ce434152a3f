/// An open-addressing table of 32-bit entries: where keys are stored that are numbered from 0.
///
/// An entry holds a number, and in the bits that numbers do not need a tag of the key's hash, so that a probe
/// hardly ever reads another key. It is a small value: a loop keeps it in registers.
struct HashIndex {
  let entries: UnsafeMutablePointer<UInt32>
  let slotCount: Int
  /// The bits that numbers need; those above are the tag.
  private let numberBits: UInt32

  /// The number of slots of a new table.
  static let fewestSlots = 1024

  /// Makes an empty index. Its owner deallocates `entries`.
  init(slotCount: Int) {
    self.slotCount = slotCount
    numberBits = UInt32(Int.bitWidth - slotCount.leadingZeroBitCount)
    entries = .allocate(capacity: slotCount)
    entries.initialize(repeating: 0, count: slotCount)
  }

  /// The memory of an index. Unit: bytes.
  var byteCount: Int { slotCount * 4 }

  @inline(__always)
  func slot(of hash: UInt64) -> Int {
    Int(truncatingIfNeeded: hash.multipliedFullWidth(by: UInt64(slotCount)).high)
  }

  @inline(__always)
  func next(_ slot: Int) -> Int { slot &+ 1 == slotCount ? 0 : slot &+ 1 }

  @inline(__always)
  func tag(_ hash: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: hash) &<< numberBits }

  /// Whether the key of an entry may have the hash of this tag.
  @inline(__always)
  func mayBe(_ entry: UInt32, _ tag: UInt32) -> Bool { (entry ^ tag) &>> numberBits == 0 }

  /// The number of an entry that is not 0.
  @inline(__always)
  func number(_ entry: UInt32) -> Int { Int(entry & ((1 &<< numberBits) &- 1)) &- 1 }

  /// The number of the first key that may have this hash; -1 where no key has.
  @inline(__always)
  func candidate(hash: UInt64) -> Int {
    var slot = slot(of: hash)
    let tag = tag(hash)
    while true {
      let entry = entries[slot]
      if entry == 0 { return -1 }
      if mayBe(entry, tag) { return number(entry) }
      slot = next(slot)
    }
  }

  /// Stores a number in a free slot.
  @inline(__always)
  func put(_ number: Int, hash: UInt64, in slot: Int) {
    entries[slot] = tag(hash) | UInt32(truncatingIfNeeded: number &+ 1)
  }

  /// Stores the number of a key that is not stored yet.
  @inline(__always)
  func insert(_ number: Int, hash: UInt64) {
    var slot = slot(of: hash)
    while entries[slot] != 0 { slot = next(slot) }
    put(number, hash: hash, in: slot)
  }
}
