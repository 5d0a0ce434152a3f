/// An ``ExplorationModel``, compiled to flat tables for a fast search.
///
/// Each local state of a component has a mask, which is a row of bits. The first bit is set if all
/// table cells of the local state are known. The next bits stand for the observations, and the
/// remaining bits for the vectors; a bit is set if the local state permits the observation or the
/// vector. The AND of the masks of all components shows which vectors are enabled in a state, which
/// observations hold, and whether the search must demand cells.
///
/// A component that may still get more local states has a row for every number that fits into its
/// bit field. So new cells can be filled without allocating new tables. Cells must be filled while
/// no thread reads the tables.
final class CompiledModel {
  /// The location of a component's local state in a packed state: a word, and some bits of the
  /// word. The component's entries in a table begin at the position `base`.
  struct Lookup {
    var base: UInt32
    let mask: UInt32
    let wordIndex: UInt16
    let shift: UInt16

    @inline(__always)
    func local(in words: UnsafePointer<UInt64>) -> UInt32 { local(in: words[Int(wordIndex)]) }

    @inline(__always)
    func local(in word: UInt64) -> UInt32 {
      UInt32(truncatingIfNeeded: word &>> UInt64(shift)) & mask
    }

    @inline(__always)
    func position(in words: UnsafePointer<UInt64>) -> Int { Int(base &+ local(in: words)) }
  }

  /// The effect of a vector on one component.
  struct Move {
    /// The location of the component's local state. The entries for this move begin at the position
    /// `base` in `stateDeltas`.
    let lookup: Lookup
    /// The component's first row, which is the row of its local state 0.
    let firstRow: UInt32
  }

  let layout: FieldLayout
  /// The size of a mask (`maskWordCount`) and the size of a state (`stateWordCount`). Unit: words.
  let maskWordCount: Int
  let stateWordCount: Int
  let componentCount: Int
  let vectorCount: Int
  /// The index of the first vector's bit in a mask. The bit of observation `o` has the index 1 + o.
  let firstVectorBit: Int

  /// For each word of a mask, the components that affect the word:
  /// `lookups[lookupStarts[word]..<lookupStarts[word + 1]]`.
  let lookups: FlatTable<Lookup>
  let lookupStarts: FlatTable<Int>
  let masks: FlatTable<UInt64>
  /// The bits of vectors whose cells are unknown. Such vectors count as permitted. This table is
  /// read only if the first bit of the mask shows that a cell is unknown.
  let unknownMasks: FlatTable<UInt64>
  /// For each word of a mask, the bits of all vectors (`vectorBits`), and the bits of the vectors
  /// that require no event from outside (`insideBits`).
  let vectorBits: FlatTable<UInt64>
  let insideBits: FlatTable<UInt64>

  /// The components that each vector moves: `moves[moveStarts[vector]..<moveStarts[vector + 1]]`.
  let moves: FlatTable<Move>
  let moveStarts: FlatTable<Int>
  /// The changes of local states: an entry is the local state XOR the vector's target.
  let stateDeltas: FlatTable<UInt32>

  /// The location of each component's local state, with the component's first row. The rows of all
  /// components are numbered consecutively.
  let rowLookups: FlatTable<Lookup>
  let rowCount: Int
  /// The fingerprint of each local state, by row. The fingerprint of a state is the XOR of the
  /// fingerprints of its local states, and does not depend on the layout.
  let rowFingerprints: FlatTable<UInt64>
  /// The number of unknown cells in each row.
  private let unknownCounts: FlatTable<Int32>
  /// The tables for stubborn sets; `nil` in a full search.
  let stubborn: StubbornTables?
  /// The tables for symmetries; `nil` if the model has none.
  private(set) var symmetries: SymmetryTables?

  /// For each component and each word of a mask, the position of the component's first entry in
  /// `masks`; negative if the component does not affect the word.
  private let maskBases: FlatTable<Int>
  /// For each role of each vector, the position of the role's first entry in `stateDeltas`;
  /// negative if the role moves nothing.
  private let deltaBases: FlatTable<Int>
  private let roleStarts: FlatTable<Int>
  private let rowCounts: [Int]

  init(_ model: ExplorationModel, layout: FieldLayout, seed: UInt64, isReduced: Bool) {
    self.layout = layout
    stateWordCount = layout.wordCount
    componentCount = model.componentCount
    vectorCount = model.vectorCount
    let firstVectorBit = 1 + model.observations.count
    let maskWords = (firstVectorBit + vectorCount + 63) / 64
    self.firstVectorBit = firstVectorBit
    self.maskWordCount = maskWords

    let isGrowing = model.components.indices.map { model.isGrowing($0) }
    rowCounts = model.components.indices.map {
      isGrowing[$0] ? 1 << layout.fields[$0].bitCount : model.stateCount(of: $0)
    }
    var rows: [Lookup] = []
    var rowCount = 0
    for (field, count) in zip(layout.fields, rowCounts) {
      rows.append(Self.lookup(field, base: rowCount))
      rowCount += count
    }
    self.rowLookups = FlatTable(rows)
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
    unknownMasks = FlatTable(repeating: 0, count: maskCount)
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
    stateDeltas = FlatTable(repeating: 0, count: deltaCount)
    stubborn =
      isReduced ? StubbornTables(model, affectedBits: affectedBits, rowCounts: rowCounts) : nil
    fill(from: model)
    symmetries = model.symmetries.isEmpty ? nil : SymmetryTables(model, self)
  }

  /// Returns whether the tables have a row for every current local state of a model.
  func canHold(_ model: ExplorationModel) -> Bool {
    model.components.indices.allSatisfy { model.stateCount(of: $0) <= rowCounts[$0] }
  }

  /// Applies the changes of a model. Precondition: ``canHold(_:)`` returns `true` for the model.
  func update(_ changes: [ExplorationModel.Change], of model: ExplorationModel) {
    for change in changes {
      switch change {
      case .cell(let vector, let role, let state):
        putRole(model.vectors[vector].roles[role], vector: vector, number: role, in: state)
      case .observed(let observation, let component, let state):
        let isHeld = model.observations[observation][component]?.contains(state) ?? true
        set(bit: 1 + observation, to: isHeld, component: component, in: state)
      }
    }
    symmetries?.update(from: model, self)
  }

  /// Returns the fingerprint of a state.
  func fingerprint(_ words: UnsafePointer<UInt64>) -> UInt64 {
    var fingerprint: UInt64 = 0
    for component in 0..<componentCount {
      fingerprint ^= rowFingerprints[rowLookups[component].position(in: words)]
    }
    return fingerprint
  }

  /// The memory of the tables. Unit: bytes.
  var byteCount: Int {
    16 * masks.count + 4 * stateDeltas.count + 12 * rowCount + (stubborn?.byteCount ?? 0)
      + (symmetries?.byteCount ?? 0)
  }

  /// Returns the index of the mask word that contains a bit, and a word in which only this bit is
  /// set.
  static func position(ofBit bit: Int) -> (word: Int, bit: UInt64) {
    (bit >> 6, 1 << UInt64(bit & 63))
  }

  // MARK: Filling the tables

  private func fill(from model: ExplorationModel) {
    for (vector, value) in model.vectors.enumerated() {
      for (number, role) in value.roles.enumerated() {
        for state in 0..<rowCounts[role.component] {
          putRole(role, vector: vector, number: number, in: state)
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

  private func putRole(_ role: ExplorationModel.Role, vector: Int, number: Int, in state: Int) {
    let target = role.target(in: state)
    let component = role.component
    let bit = firstVectorBit + vector
    set(
      bit: bit, to: target != ExplorationModel.Role.blockedTarget, component: component, in: state)
    let isUnknown = target == ExplorationModel.Role.unknownTarget
    let place = maskBases[component * maskWordCount + bit >> 6] + state
    let mask = 1 as UInt64 &<< UInt64(bit & 63)
    if isUnknown != (unknownMasks[place] & mask != 0) {
      unknownMasks.baseAddress[place] ^= mask
      let row = Int(rowLookups[component].base) + state
      unknownCounts.baseAddress[row] += isUnknown ? 1 : -1
      set(bit: 0, to: unknownCounts[row] == 0, component: component, in: state)
    }
    let base = deltaBases[roleStarts[vector] + number]
    if base >= 0 {
      stateDeltas.baseAddress[base + state] = target < 0 ? 0 : UInt32(state ^ Int(target))
    }
  }

  private func set(bit: Int, to isSet: Bool, component: Int, in state: Int) {
    let mask = 1 as UInt64 &<< UInt64(bit & 63)
    let base = maskBases[component * maskWordCount + bit >> 6]
    guard base >= 0 else { return }
    if isSet {
      masks.baseAddress[base + state] |= mask
    } else {
      masks.baseAddress[base + state] &= ~mask
    }
    guard let stubborn, bit > 0 else { return }
    let place = (Int(rowLookups[component].base) + state) * maskWordCount + bit >> 6
    if isSet {
      stubborn.permittedMasks.baseAddress[place] |= mask
    } else {
      stubborn.permittedMasks.baseAddress[place] &= ~mask
    }
  }

  /// Returns, for each component, the mask bits that the component affects.
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
      base: UInt32(base), mask: UInt32(truncatingIfNeeded: field.mask),
      wordIndex: UInt16(field.wordIndex),
      shift: UInt16(field.shift & 63))
  }

  private static func bits(_ numbers: some Sequence<Int>, words: Int) -> [UInt64] {
    var bits = [UInt64](repeating: 0, count: words)
    for number in numbers { bits[number >> 6] |= 1 << UInt64(number & 63) }
    return bits
  }

  /// Returns the fingerprint of a local state: a SplitMix64 hash, so that different local states
  /// have unrelated fingerprints.
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
  let baseAddress: UnsafeMutablePointer<Element>
  let count: Int

  init(_ elements: [Element]) {
    count = elements.count
    baseAddress = .allocate(capacity: max(1, count))
    _ = UnsafeMutableBufferPointer(start: baseAddress, count: count).initialize(from: elements)
  }

  init(repeating element: Element, count: Int) {
    self.count = count
    baseAddress = .allocate(capacity: max(1, count))
    baseAddress.initialize(repeating: element, count: count)
  }

  deinit { baseAddress.deallocate() }

  @inline(__always)
  subscript(position: Int) -> Element { baseAddress[position] }
}
