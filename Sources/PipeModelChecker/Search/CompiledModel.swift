/// A model compiled to flat tables for the search.
///
/// A mask has one bit for each vector, one for each observation, and one that says whether all
/// cells of a row are known. Their order is: known, observations, vectors. Every local state of a
/// component has a mask of the bits that it permits. The AND of the masks of a state yields the
/// enabled vectors and the observations that hold, and says whether cells must be demanded.
///
/// A component that may still grow has a row for each number that fits into its field, so that
/// cells can be filled in place. No thread reads the tables at that time.
final class CompiledModel {
  /// Reads a local state out of a state, and finds its entry in a table.
  struct Lookup {
    var base: UInt32
    let mask: UInt32
    let word: UInt16
    let shift: UInt16

    @inline(__always)
    func local(in words: UnsafePointer<UInt64>) -> UInt32 { local(in: words[Int(word)]) }

    @inline(__always)
    func local(in word: UInt64) -> UInt32 {
      UInt32(truncatingIfNeeded: word &>> UInt64(shift)) & mask
    }

    @inline(__always)
    func position(in words: UnsafePointer<UInt64>) -> Int { Int(base &+ local(in: words)) }
  }

  /// The effect of a vector on one component.
  struct Move {
    /// The position in `deltas` of the change to the local state.
    let lookup: Lookup
    /// The row of the component's local state 0.
    let firstRow: UInt32
  }

  let layout: FieldLayout
  /// The sizes of a mask and of a state, in words.
  let maskWords: Int
  let stateWords: Int
  let componentCount: Int
  let vectorCount: Int
  /// The bit of the first vector; observation `o` has bit 1 + o.
  let firstVectorBit: Int

  /// For each word of a mask, the components that affect it: `lookups[lookupStarts[word]..<…]`.
  let lookups: FlatTable<Lookup>
  let lookupStarts: FlatTable<Int>
  let masks: FlatTable<UInt64>
  /// The cells that are permitted only because they are unknown; read only if the known bit is off.
  let unknowns: FlatTable<UInt64>
  /// For each word of a mask, the bits of all vectors, and of the vectors that need no event from
  /// outside.
  let vectorBits: FlatTable<UInt64>
  let insideBits: FlatTable<UInt64>

  /// For each vector, the components that it moves: `moves[moveStarts[vector]..<…]`.
  let moves: FlatTable<Move>
  let moveStarts: FlatTable<Int>
  /// The local state XOR its target.
  let deltas: FlatTable<UInt32>

  /// For each component, its first row. The rows of all components are numbered consecutively.
  let rows: FlatTable<Lookup>
  let rowCount: Int
  /// The fingerprints of the local states. The fingerprint of a state is their XOR, so that it does
  /// not depend on the layout.
  let rowFingerprints: FlatTable<UInt64>
  /// The number of unknown cells in each row.
  private let unknownCounts: FlatTable<Int32>
  /// The tables for stubborn sets; `nil` in a full search.
  let stubborn: StubbornTables?

  /// The first row of each component in `masks`, for each word; negative if the component does not
  /// affect the word.
  private let maskBases: FlatTable<Int>
  /// The first row of each role of each vector in `deltas`; negative if the role moves nothing.
  private let deltaBases: FlatTable<Int>
  private let roleStarts: FlatTable<Int>
  private let rowCounts: [Int]

  init(_ model: ExplorationModel, layout: FieldLayout, seed: UInt64, isReduced: Bool) {
    self.layout = layout
    stateWords = layout.wordCount
    componentCount = model.componentCount
    vectorCount = model.vectorCount
    let firstVectorBit = 1 + model.observations.count
    let maskWords = (firstVectorBit + vectorCount + 63) / 64
    self.firstVectorBit = firstVectorBit
    self.maskWords = maskWords

    let isGrowing = model.components.indices.map { model.isGrowing($0) }
    rowCounts = model.components.indices.map {
      isGrowing[$0] ? 1 << layout.fields[$0].bits : model.stateCount(of: $0)
    }
    var rows: [Lookup] = []
    var rowCount = 0
    for (field, count) in zip(layout.fields, rowCounts) {
      rows.append(Self.lookup(field, base: rowCount))
      rowCount += count
    }
    self.rows = FlatTable(rows)
    self.rowCount = rowCount
    rowFingerprints = FlatTable(
      rowCounts.enumerated().flatMap { component, count in
        (0..<count).map { Self.fingerprint(of: $0, component: component, seed: seed) }
      })
    unknownCounts = FlatTable(repeating: 0, count: rowCount)

    let affectedBits = Self.bitsByComponent(
      of: model, isGrowing, firstVectorBit: firstVectorBit, maskWords: maskWords)
    var lookups: [Lookup] = []
    var starts = [0]
    var bases = [Int](repeating: -1, count: componentCount * maskWords)
    var maskCount = 0
    for word in 0..<maskWords {
      for component in 0..<componentCount where affectedBits[component][word] != 0 {
        lookups.append(Self.lookup(layout.fields[component], base: maskCount))
        bases[component * maskWords + word] = maskCount
        maskCount += rowCounts[component]
      }
      starts.append(lookups.count)
    }
    self.lookups = FlatTable(lookups)
    lookupStarts = FlatTable(starts)
    maskBases = FlatTable(bases)
    masks = FlatTable(repeating: ~0, count: maskCount)
    unknowns = FlatTable(repeating: 0, count: maskCount)
    let inside = model.vectors.indices.filter { !model.vectors[$0].isFromOutside }
    vectorBits = FlatTable(
      Self.bits(model.vectors.indices.map { firstVectorBit + $0 }, words: maskWords))
    insideBits = FlatTable(Self.bits(inside.map { firstVectorBit + $0 }, words: maskWords))

    var moves: [Move] = []
    var moveStarts = [0]
    var deltaBases: [Int] = []
    var roleStarts = [0]
    var deltaCount = 0
    for vector in model.vectors {
      for role in vector.roles {
        let component = role.component
        let isMoving = role.targets.enumerated().contains { $1 >= 0 && Int($1) != $0 }
        if isMoving || isGrowing[component] && !role.isUnchanged {
          moves.append(
            Move(
              lookup: Self.lookup(layout.fields[component], base: deltaCount),
              firstRow: rows[component].base))
          deltaBases.append(deltaCount)
          deltaCount += rowCounts[component]
        } else {
          deltaBases.append(-1)
        }
      }
      moveStarts.append(moves.count)
      roleStarts.append(deltaBases.count)
    }
    self.moves = FlatTable(moves)
    self.moveStarts = FlatTable(moveStarts)
    self.deltaBases = FlatTable(deltaBases)
    self.roleStarts = FlatTable(roleStarts)
    deltas = FlatTable(repeating: 0, count: deltaCount)
    stubborn =
      isReduced ? StubbornTables(model, affectedBits: affectedBits, rowCounts: rowCounts) : nil
    fill(from: model)
  }

  /// Returns whether the current local states of a model fit into the rows.
  func canHold(_ model: ExplorationModel) -> Bool {
    model.components.indices.allSatisfy { model.stateCount(of: $0) <= rowCounts[$0] }
  }

  /// Applies the changes of a model whose local states fit into the rows.
  func update(_ changes: [ExplorationModel.Change], of model: ExplorationModel) {
    for change in changes {
      switch change {
      case .cell(let vector, let role, let state):
        put(model.vectors[vector].roles[role], vector: vector, number: role, in: state)
      case .observed(let observation, let component, let state):
        let isHeld = model.observations[observation][component]?.contains(state) ?? true
        set(bit: 1 + observation, to: isHeld, component: component, in: state)
      }
    }
  }

  /// Returns the fingerprint of a state.
  func fingerprint(_ words: UnsafePointer<UInt64>) -> UInt64 {
    var fingerprint: UInt64 = 0
    for component in 0..<componentCount {
      fingerprint ^= rowFingerprints[rows[component].position(in: words)]
    }
    return fingerprint
  }

  /// The memory of the tables. Unit: bytes.
  var byteCount: Int {
    16 * masks.count + 4 * deltas.count + 12 * rowCount + (stubborn?.byteCount ?? 0)
  }

  /// Returns the position of a bit in a mask.
  static func place(ofBit bit: Int) -> (word: Int, bit: UInt64) {
    (bit >> 6, 1 << UInt64(bit & 63))
  }

  // MARK: Cells

  private func fill(from model: ExplorationModel) {
    for (vector, value) in model.vectors.enumerated() {
      for (number, role) in value.roles.enumerated() {
        for state in 0..<rowCounts[role.component] {
          put(role, vector: vector, number: number, in: state)
        }
      }
    }
    for (observation, sets) in model.observations.enumerated() {
      for (component, states) in sets {
        for state in 0..<rowCounts[component] where !states.contains(state) {
          set(bit: 1 + observation, to: false, component: component, in: state)
        }
      }
    }
  }

  private func put(_ role: ExplorationModel.Role, vector: Int, number: Int, in state: Int) {
    let target = role.target(in: state)
    let component = role.component
    let bit = firstVectorBit + vector
    set(bit: bit, to: target != ExplorationModel.Role.blocked, component: component, in: state)
    let isUnknown = target == ExplorationModel.Role.unknown
    let place = maskBases[component * maskWords + bit >> 6] + state
    let mask = 1 as UInt64 &<< UInt64(bit & 63)
    if isUnknown != (unknowns[place] & mask != 0) {
      unknowns.start[place] ^= mask
      let row = Int(rows[component].base) + state
      unknownCounts.start[row] += isUnknown ? 1 : -1
      set(bit: 0, to: unknownCounts[row] == 0, component: component, in: state)
    }
    let base = deltaBases[roleStarts[vector] + number]
    if base >= 0 { deltas.start[base + state] = target < 0 ? 0 : UInt32(state ^ Int(target)) }
  }

  private func set(bit: Int, to isSet: Bool, component: Int, in state: Int) {
    let mask = 1 as UInt64 &<< UInt64(bit & 63)
    let base = maskBases[component * maskWords + bit >> 6]
    guard base >= 0 else { return }
    if isSet {
      masks.start[base + state] |= mask
    } else {
      masks.start[base + state] &= ~mask
    }
    guard let stubborn, bit > 0 else { return }
    let place = (Int(rows[component].base) + state) * maskWords + bit >> 6
    if isSet {
      stubborn.permitted.start[place] |= mask
    } else {
      stubborn.permitted.start[place] &= ~mask
    }
  }

  /// Returns the bits that each component affects.
  private static func bitsByComponent(
    of model: ExplorationModel, _ isGrowing: [Bool], firstVectorBit: Int, maskWords: Int
  ) -> [[UInt64]] {
    var bits: [[Int]] = isGrowing.map { $0 ? [0] : [] }
    for (observation, sets) in model.observations.enumerated() {
      for component in sets.keys { bits[component].append(1 + observation) }
    }
    for (number, vector) in model.vectors.enumerated() {
      for role in vector.roles { bits[role.component].append(firstVectorBit + number) }
    }
    return bits.map { self.bits($0, words: maskWords) }
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

  /// Returns the SplitMix64 hash of a local state's row, so that fingerprints are unrelated.
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

/// A table of a fixed size that is read without bounds checks.
final class FlatTable<Element: BitwiseCopyable> {
  let start: UnsafeMutablePointer<Element>
  let count: Int

  init(_ elements: [Element]) {
    count = elements.count
    start = .allocate(capacity: max(1, count))
    _ = UnsafeMutableBufferPointer(start: start, count: count).initialize(from: elements)
  }

  init(repeating element: Element, count: Int) {
    self.count = count
    start = .allocate(capacity: max(1, count))
    start.initialize(repeating: element, count: count)
  }

  deinit { start.deallocate() }

  @inline(__always)
  subscript(position: Int) -> Element { start[position] }
}
