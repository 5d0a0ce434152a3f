/// A model as the search reads it: flat tables, made anew where the model grew.
///
/// There is a bit for each vector, for each observation, and one that says whether all cells of a row are
/// known. Every local state of a component has a mask of the bits that it permits; the AND of the masks of
/// a state says at once what is enabled, what is observed, and whether something has to be asked. The bits
/// stand in the order: known, observations, vectors.
final class CompiledModel {
  /// Reads a local state out of a state, and what a table says about it.
  struct Lookup {
    let base: UInt32
    let mask: UInt32
    let word: UInt16
    let shift: UInt16

    @inline(__always)
    func position(in words: UnsafePointer<UInt64>) -> Int {
      position(in: words[Int(word)])
    }

    @inline(__always)
    func position(in word: UInt64) -> Int {
      Int(truncatingIfNeeded: UInt64(base) &+ ((word &>> UInt64(shift)) & UInt64(mask)))
    }
  }

  let layout: FieldLayout
  /// Words of a mask, and of a state.
  let maskWords: Int
  let stateWords: Int
  let componentCount: Int
  let vectorCount: Int
  /// The bit of the first vector; observation `o` has bit 1 + o.
  let firstVectorBit: Int

  /// For each word of a mask the components that touch it: `lookups[lookupStarts[word]..<…]`.
  let lookups: FlatTable<Lookup>
  let lookupStarts: FlatTable<Int>
  let masks: FlatTable<UInt64>
  /// The cells that are permitted only because they are not known; read where the known bit is off.
  let unknowns: FlatTable<UInt64>
  /// In each word of a mask the bits of vectors, and of those that need nobody from outside.
  let vectorBits: FlatTable<UInt64>
  let insideBits: FlatTable<UInt64>

  /// For each vector the components that it moves: `moves[moveStarts[vector]..<…]`, with where in `deltas`
  /// stands by what the word changes.
  let moves: FlatTable<Lookup>
  let moveStarts: FlatTable<Int>
  let deltas: FlatTable<UInt64>
  /// By what the fingerprint changes, beside `deltas`.
  let fingerprintDeltas: FlatTable<UInt64>

  /// For each component where its local states are counted, all components in one row.
  let locals: FlatTable<Lookup>
  let localCount: Int
  /// The fingerprint of a state is the XOR of those of its local states, so that it does not depend on the
  /// layout.
  let localFingerprints: FlatTable<UInt64>

  /// What stubborn sets are made from, where steps are left out.
  let stubborn: StubbornTables?

  init(_ model: ExplorationModel, layout: FieldLayout, seed: UInt64, isReduced: Bool) {
    self.layout = layout
    stateWords = layout.wordCount
    componentCount = model.componentCount
    vectorCount = model.vectorCount
    firstVectorBit = 1 + model.observations.count
    maskWords = (firstVectorBit + vectorCount + 63) / 64

    let rows = MaskRows(model, firstVectorBit: firstVectorBit, maskWords: maskWords)
    var lookups: [Lookup] = []
    var starts = [0]
    var masks: [UInt64] = []
    var unknowns: [UInt64] = []
    for word in 0..<maskWords {
      for component in 0..<componentCount where rows.touches(component, word: word) {
        lookups.append(Self.lookup(layout.fields[component], base: masks.count))
        masks += rows.permitted[component].map { $0[word] }
        unknowns += rows.unknown[component].map { $0[word] }
      }
      starts.append(lookups.count)
    }
    self.lookups = FlatTable(lookups)
    lookupStarts = FlatTable(starts)
    self.masks = FlatTable(masks)
    self.unknowns = FlatTable(unknowns)
    let first = 1 + model.observations.count
    let inside = model.vectors.indices.filter { !model.vectors[$0].isFromOutside }
    vectorBits = FlatTable(Self.bits(model.vectors.indices.map { first + $0 }, words: maskWords))
    insideBits = FlatTable(Self.bits(inside.map { first + $0 }, words: maskWords))

    var localLookups: [Lookup] = []
    var fingerprints: [UInt64] = []
    for (number, component) in model.components.enumerated() {
      localLookups.append(Self.lookup(layout.fields[number], base: fingerprints.count))
      for state in 0..<component.stateCount {
        fingerprints.append(Self.fingerprint(of: state, component: number, seed: seed))
      }
    }
    locals = FlatTable(localLookups)
    localCount = fingerprints.count
    localFingerprints = FlatTable(fingerprints)

    var moves: [Lookup] = []
    var moveStarts = [0]
    var deltas: [UInt64] = []
    var fingerprintDeltas: [UInt64] = []
    for vector in model.vectors {
      for role in vector.roles {
        let targets = role.targets.enumerated()
        guard targets.contains(where: { $0.element >= 0 && Int($0.element) != $0.offset }) else {
          continue
        }
        let shift = UInt64(layout.fields[role.component].shift)
        let first = Int(localLookups[role.component].base)
        moves.append(Self.lookup(layout.fields[role.component], base: deltas.count))
        for (state, target) in targets {
          let target = target < 0 ? state : Int(target)
          deltas.append(UInt64(state ^ target) << shift)
          fingerprintDeltas.append(fingerprints[first + state] ^ fingerprints[first + target])
        }
      }
      moveStarts.append(moves.count)
    }
    self.moves = FlatTable(moves)
    self.moveStarts = FlatTable(moveStarts)
    self.deltas = FlatTable(deltas)
    self.fingerprintDeltas = FlatTable(fingerprintDeltas)
    stubborn = isReduced ? StubbornTables(model, rows: rows, firstVectorBit: firstVectorBit) : nil
  }

  /// The fingerprint of a state.
  func fingerprint(_ words: UnsafePointer<UInt64>) -> UInt64 {
    var fingerprint: UInt64 = 0
    for component in 0..<componentCount {
      fingerprint ^= localFingerprints[locals[component].position(in: words)]
    }
    return fingerprint
  }

  /// The memory of the tables. Unit: bytes.
  var byteCount: Int {
    8 * (masks.count + unknowns.count + deltas.count + fingerprintDeltas.count + localCount)
      + (stubborn?.byteCount ?? 0)
  }

  private static func lookup(_ field: FieldLayout.Field, base: Int) -> Lookup {
    Lookup(
      base: UInt32(base), mask: UInt32(truncatingIfNeeded: field.mask), word: UInt16(field.word),
      shift: UInt16(field.shift & 63))
  }

  private static func bits(_ numbers: some Sequence<Int>, words: Int) -> [UInt64] {
    var bits = [UInt64](repeating: 0, count: words)
    for number in numbers { bits[number >> 6] |= 1 << UInt64(number & 63) }
    return bits
  }

  /// SplitMix64 of the place of a local state: no two of them are related.
  private static func fingerprint(of state: Int, component: Int, seed: UInt64) -> UInt64 {
    var value = seed &+ UInt64(component) << 32 &+ UInt64(state)
    for _ in 0..<2 {
      value = value &+ 0x9E37_79B9_7F4A_7C15
      value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
      value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
      value ^= value >> 31
    }
    return value
  }
}

/// The masks of all local states, in full width.
struct MaskRows {
  private(set) var permitted: [[[UInt64]]]
  private(set) var unknown: [[[UInt64]]]
  /// The bits about which a component has something to say.
  private(set) var spoken: [[UInt64]]

  init(_ model: ExplorationModel, firstVectorBit: Int, maskWords: Int) {
    let none = [UInt64](repeating: 0, count: maskWords)
    let all = [UInt64](repeating: ~0, count: maskWords)
    permitted = model.components.map { Array(repeating: all, count: $0.stateCount) }
    unknown = model.components.map { Array(repeating: none, count: $0.stateCount) }
    spoken = Array(repeating: none, count: model.componentCount)
    for (number, vector) in model.vectors.enumerated() {
      let (word, bit) = Self.place(firstVectorBit + number)
      for role in vector.roles {
        let component = role.component
        spoken[component][word] |= bit
        for state in permitted[component].indices {
          switch role.target(in: state) {
          case ExplorationModel.Role.blocked: permitted[component][state][word] &= ~bit
          case ExplorationModel.Role.unknown:
            unknown[component][state][word] |= bit
            permitted[component][state][0] &= ~1
            spoken[component][0] |= 1
          default: break
          }
        }
      }
    }
    for (number, sets) in model.observations.enumerated() {
      let (word, bit) = Self.place(1 + number)
      for (component, states) in sets {
        spoken[component][word] |= bit
        for state in permitted[component].indices where !states.contains(state) {
          permitted[component][state][word] &= ~bit
        }
      }
    }
  }

  func touches(_ component: Int, word: Int) -> Bool { spoken[component][word] != 0 }

  static func place(_ bit: Int) -> (word: Int, bit: UInt64) { (bit >> 6, 1 << UInt64(bit & 63)) }
}

/// A table that does not change once it is made.
final class FlatTable<Element: BitwiseCopyable> {
  let start: UnsafeMutablePointer<Element>
  let count: Int

  init(_ elements: [Element]) {
    count = elements.count
    start = .allocate(capacity: max(1, count))
    _ = UnsafeMutableBufferPointer(start: start, count: count).initialize(from: elements)
  }

  deinit { start.deallocate() }

  @inline(__always)
  subscript(position: Int) -> Element { start[position] }
}
