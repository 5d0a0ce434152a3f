/// The set of visited states of one partition. States are numbered in the order of discovery.
///
/// A found state is first put into a batch, so that many states are looked up together.
final class StateStore {
  /// The way in which states are stored.
  private enum Representation {
    /// A state is a single word, which is also its key.
    case word
    /// A state is a few words, stored in a ``StateTable``.
    case words
    case tree
    case fingerprint
  }

  /// The origin of the initial state, which has no predecessor.
  static let noOrigin = UInt32.max
  private static let batchSize = 256
  /// The maximum number of words in a state that is stored in a table. Larger states are stored as
  /// trees.
  private static let flatWordLimit = 4

  let budget: MemoryBudget
  private let stateLimit: Int
  private var stateWordCount: Int
  private var representation: Representation
  private var keyTable: KeyTable
  private var stateTable: StateTable
  private var stateTree: StateTree
  private var origins = ChunkedList<UInt32>()
  /// The reason why the store accepts no more states.
  private(set) var reachedLimit: ExplorationLimit?

  /// The buffers for the batch, which contains the states found since the last flush. Some of the
  /// buffers are for looking up these states.
  private var batchWords: UnsafeMutablePointer<UInt64>
  private let batchKeys: UnsafeMutablePointer<UInt64>
  private let batchOrigins: UnsafeMutablePointer<UInt32>
  private let batchHashes: UnsafeMutablePointer<UInt64>
  private let candidates: UnsafeMutablePointer<Int32>
  private let newPositions: UnsafeMutablePointer<Int32>
  private var batchCount = 0
  /// Whether to record all steps in `edges`. An element has the step's origin in its lower half,
  /// and the target in its upper half.
  private let recordsEdges: Bool
  private var edges = ChunkedList<UInt64>()

  /// For states that are stored as trees: the numbers of the tree's nodes, for the state that was
  /// loaded last (`treeNumbers`), and for one of its successors (`successorTreeNumbers`).
  private var treeNumbers: UnsafeMutablePointer<UInt32>
  private var successorTreeNumbers: UnsafeMutablePointer<UInt32>

  /// The words of the states of the current level, which begins with state `frontierStart`.
  /// `nextFrontier` contains the states of the next level.
  ///
  /// Used only if the store contains only fingerprints.
  private var frontier: [UInt64] = []
  private var frontierStart = 0
  private var nextFrontier: [UInt64] = []

  /// - Parameter budget: The memory budget, which the store shares with the partition's outboxes.
  init(
    stateWords: Int, storage: StateStorage, stateLimit: Int, budget: MemoryBudget,
    recordsEdges: Bool
  ) {
    self.recordsEdges = recordsEdges
    self.stateWordCount = stateWords
    self.stateLimit = stateLimit
    self.budget = budget
    representation =
      switch storage {
      case .exact: Self.exactRepresentation(stateWords)
      case .fingerprints: .fingerprint
      }
    keyTable = KeyTable(budget: budget)
    stateTable = StateTable(width: stateWords, budget: budget)
    stateTree = StateTree(wordCount: stateWords, budget: budget)
    treeNumbers = .allocate(capacity: stateTree.nodeCount)
    successorTreeNumbers = .allocate(capacity: stateTree.nodeCount)
    batchWords = .allocate(capacity: Self.batchSize * stateWords)
    batchKeys = .allocate(capacity: Self.batchSize)
    batchOrigins = .allocate(capacity: Self.batchSize)
    batchHashes = .allocate(capacity: Self.batchSize)
    candidates = .allocate(capacity: Self.batchSize)
    newPositions = .allocate(capacity: Self.batchSize)
  }

  deinit {
    treeNumbers.deallocate()
    successorTreeNumbers.deallocate()
    batchWords.deallocate()
    batchKeys.deallocate()
    batchOrigins.deallocate()
    batchHashes.deallocate()
    candidates.deallocate()
    newPositions.deallocate()
  }

  /// The number of stored states, not counting states in the batch.
  var count: Int { origins.count }

  /// Whether each state is a single word, which is also its key.
  var storesSingleWords: Bool { representation == .word }

  /// Whether the states themselves are stored, not only their fingerprints.
  var isExact: Bool { representation != .fingerprint }

  private static func exactRepresentation(_ words: Int) -> Representation {
    words == 1 ? .word : words <= flatWordLimit ? .words : .tree
  }

  /// Returns the key of a state. If only fingerprints are stored, the key is the fingerprint.
  func key(of state: Int) -> UInt64 { keyTable.key(state) }

  /// Returns a pointer to a state of one word. The following states, up to the next multiple of
  /// `ChunkedList.chunkSize`, are adjacent in memory.
  func pointer(at state: Int) -> UnsafePointer<UInt64> { keyTable.pointer(at: state) }

  /// Returns the origin of a state: the global number of its predecessor.
  func origin(of state: Int) -> UInt32 { origins[state] }

  /// Begins the level whose first state has this number.
  func beginLevel(at first: Int) {
    budget.release(8 * frontier.count)
    frontier = nextFrontier
    frontierStart = first
    nextFrontier = []
  }

  /// Calls a closure for each recorded step, with the step's origin and target.
  func forEachEdge(_ visit: (_ origin: UInt32, _ state: Int) -> Void) {
    for number in 0..<edges.count {
      visit(UInt32(truncatingIfNeeded: edges[number]), Int(edges[number] >> 32))
    }
  }

  /// Writes the words of a state to `words`. If only fingerprints are stored, the state must belong
  /// to the current level.
  func load(_ state: Int, into words: UnsafeMutablePointer<UInt64>) {
    switch representation {
    case .word: words[0] = keyTable.key(state)
    case .words: words.update(from: stateTable.pointer(at: state), count: stateWordCount)
    case .tree: stateTree.unpack(keyTable.key(state), into: words, numbers: treeNumbers)
    case .fingerprint:
      let first = (state &- frontierStart) &* stateWordCount
      for word in 0..<stateWordCount { words[word] = frontier[first &+ word] }
    }
  }

  /// Returns the number of a state; `nil` if the state was not visited.
  func number(of words: UnsafePointer<UInt64>, fingerprint: UInt64) -> Int? {
    if representation == .words { return stateTable.number(of: words) }
    let key: UInt64? =
      switch representation {
      case .word, .words: words[0]
      case .tree: stateTree.knownKey(of: words, numbers: successorTreeNumbers)
      case .fingerprint: fingerprint
      }
    return key.flatMap { keyTable.number(of: $0) }.map(Int.init)
  }

  // MARK: Adding states

  /// Adds a state of one word to the batch.
  @inline(__always)
  func add(_ word: UInt64, origin: UInt32) {
    batchKeys[batchCount] = word
    batchOrigins[batchCount] = origin
    batchCount &+= 1
    if batchCount == Self.batchSize { flush() }
  }

  /// Adds a state to the batch.
  func add(_ words: UnsafePointer<UInt64>, fingerprint: UInt64, origin: UInt32) {
    let key: UInt64 =
      switch representation {
      case .word: words[0]
      case .words: 0
      case .tree: stateTree.key(of: words, numbers: successorTreeNumbers)
      case .fingerprint: fingerprint
      }
    add(key, words, origin)
  }

  /// Adds a successor of the last loaded state to the batch.
  func add(
    _ words: UnsafePointer<UInt64>, after loaded: UnsafePointer<UInt64>, fingerprint: UInt64,
    origin: UInt32
  ) {
    guard representation == .tree else {
      add(words, fingerprint: fingerprint, origin: origin)
      return
    }
    successorTreeNumbers.update(from: treeNumbers, count: stateTree.nodeCount)
    add(
      stateTree.key(of: words, changedFrom: loaded, numbers: successorTreeNumbers), origin: origin)
  }

  private func add(_ key: UInt64, _ words: UnsafePointer<UInt64>, _ origin: UInt32) {
    if representation == .fingerprint || representation == .words {
      let place = batchWords + batchCount &* stateWordCount
      for word in 0..<stateWordCount { place[word] = words[word] }
    }
    add(key, origin: origin)
  }

  /// Stores the new states of the batch, and empties the batch.
  @inline(never)
  func flush() {
    let count = batchCount
    batchCount = 0
    guard reachedLimit == nil else { return }
    while origins.count + count > origins.capacity {
      origins.addChunk()
      budget.reserve(origins.chunkByteCount)
    }
    guard representation == .words ? stateTable.reserve(count) : keyTable.reserve(count),
      !budget.isExceeded
    else {
      reachedLimit = .memory
      return
    }
    let newCount =
      representation == .words
      ? stateTable.intern(
        batchWords, count: count, hashes: batchHashes, candidates: candidates,
        newPositions: newPositions)
      : keyTable.intern(
        batchKeys, count: count, hashes: batchHashes, candidates: candidates,
        newPositions: newPositions)
    for place in 0..<newCount { origins.append(batchOrigins[Int(newPositions[place])]) }
    if representation == .fingerprint {
      for place in 0..<newCount {
        let words = batchWords + Int(newPositions[place]) * stateWordCount
        for word in 0..<stateWordCount { nextFrontier.append(words[word]) }
      }
      budget.reserve(8 * stateWordCount * newCount)
    }
    if recordsEdges { recordEdges(count) }
    if origins.count > stateLimit { reachedLimit = .states }
  }

  /// Records the steps to the states of the batch.
  private func recordEdges(_ count: Int) {
    while edges.count + count > edges.capacity {
      edges.addChunk()
      budget.reserve(edges.chunkByteCount)
    }
    for place in 0..<count where batchOrigins[place] != Self.noOrigin {
      let number =
        representation == .words
        ? stateTable.number(of: batchWords + place * stateWordCount)
        : keyTable.number(of: batchKeys[place]).map(Int.init)
      if let number { edges.append(UInt64(batchOrigins[place]) | UInt64(number) << 32) }
    }
  }

  // MARK: Changing the layout

  /// Stores all states again in a new layout.
  ///
  /// Returns `false` if there is not enough memory. The stored states are then unchanged, and the
  /// store accepts no more states.
  func changeLayout(from smaller: FieldLayout, to larger: FieldLayout) -> Bool {
    let moves = FieldMoves(from: smaller, to: larger)
    switch representation {
    case .fingerprint:
      let before = frontier.count + nextFrontier.count
      frontier = Self.map(frontier, smaller, larger, moves)
      nextFrontier = Self.map(nextFrontier, smaller, larger, moves)
      budget.reserve(8 * (frontier.count + nextFrontier.count - before))
    case .word where larger.wordCount == 1:
      keyTable.replaceKeys { key in
        var changed: UInt64 = 0
        withUnsafePointer(to: key) { moves.apply($0, to: &changed) }
        return changed
      }
    case .word, .words, .tree:
      guard copy(width: larger.wordCount, moves) else {
        reachedLimit = .memory
        return false
      }
    }
    stateWordCount = larger.wordCount
    batchWords.deallocate()
    batchWords = .allocate(capacity: Self.batchSize * stateWordCount)
    return true
  }

  /// Copies all states to new tables in a new layout. Returns `false` if there is not enough memory.
  private func copy(width: Int, _ moves: FieldMoves) -> Bool {
    let newRepresentation = Self.exactRepresentation(width)
    var newKeys = KeyTable(budget: budget)
    var newTable = StateTable(width: width, budget: budget)
    var newTree = StateTree(wordCount: width, budget: budget)
    let newNumbers = UnsafeMutablePointer<UInt32>.allocate(capacity: newTree.nodeCount)
    let words = UnsafeMutablePointer<UInt64>.allocate(capacity: stateWordCount)
    let changed = UnsafeMutablePointer<UInt64>.allocate(capacity: width)
    defer {
      words.deallocate()
      changed.deallocate()
    }
    for state in 0..<count {
      load(state, into: words)
      moves.apply(words, to: changed)
      let isStored: Bool
      switch newRepresentation {
      case .words: isStored = newTable.add(changed)
      case .word, .tree, .fingerprint:
        let key =
          newRepresentation == .word ? changed[0] : newTree.key(of: changed, numbers: newNumbers)
        _ = newKeys.intern(key)
        isStored = !budget.isExceeded
      }
      guard isStored else {
        newNumbers.deallocate()
        return false
      }
    }
    treeNumbers.deallocate()
    successorTreeNumbers.deallocate()
    treeNumbers = newNumbers
    successorTreeNumbers = .allocate(capacity: newTree.nodeCount)
    keyTable = newKeys
    stateTable = newTable
    stateTree = newTree
    representation = newRepresentation
    return true
  }

  private static func map(
    _ words: [UInt64], _ smaller: FieldLayout, _ larger: FieldLayout, _ moves: FieldMoves
  ) -> [UInt64] {
    let count = words.count / smaller.wordCount
    return [UInt64](unsafeUninitializedCapacity: count * larger.wordCount) { changed, filled in
      words.withUnsafeBufferPointer { words in
        guard let source = words.baseAddress, let target = changed.baseAddress else { return }
        for state in 0..<count {
          moves.apply(source + state * smaller.wordCount, to: target + state * larger.wordCount)
        }
        filled = count * larger.wordCount
      }
    }
  }
}

/// The way in which a search stores visited states.
package enum StateStorage: Sendable {
  /// States are stored exactly: as their words or, for states of many words, as trees of interned
  /// words.
  case exact
  /// States are stored as 64-bit fingerprints, which need less memory if states are large. The
  /// search may miss a state that has the same fingerprint as another state. See
  /// ``ExplorationResult/omissionProbability``.
  /// - Parameter seed: The seed of the fingerprints. With another seed, other states have equal
  ///   fingerprints.
  case fingerprints(seed: UInt64)

  var seed: UInt64 {
    switch self {
    case .exact: 0
    case .fingerprints(let seed): seed
    }
  }
}

/// The memory that a part of a search uses, and its limit. Unit: bytes.
final class MemoryBudget {
  let byteLimit: Int
  private(set) var used = 0
  private(set) var peak = 0

  init(limit: Int) {
    self.byteLimit = limit
  }

  var isExceeded: Bool { used > byteLimit }

  func allows(_ byteCount: Int) -> Bool { byteCount <= byteLimit - used }

  func reserve(_ byteCount: Int) {
    used += byteCount
    peak = max(peak, used)
  }

  func release(_ byteCount: Int) { used -= byteCount }
}
