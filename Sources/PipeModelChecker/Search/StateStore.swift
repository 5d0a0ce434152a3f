/// The states of one partition, numbered in the order of discovery.
///
/// New states are collected in a batch, and looked up together.
final class StateStore {
  /// The way in which states are stored.
  private enum Representation {
    /// A state is a single word, which is also its key.
    case word
    /// The words of a state are adjacent.
    case words
    case tree
    case fingerprint
  }

  /// The origin of the first state.
  static let noOrigin = UInt32.max
  private static let batchSize = 256
  /// The maximum number of words of a state; larger states are stored as trees.
  private static let flatWordLimit = 4

  let budget: MemoryBudget
  private let stateLimit: Int
  private var stateWords: Int
  private var representation: Representation
  private var keys: KeyTable
  private var table: StateTable
  private var tree: StateTree
  private var origins = Chunked<UInt32>()
  /// The reason why the store accepts no more states.
  private(set) var limit: ExplorationLimit?

  /// The states found since the last flush, and the buffers to look them up.
  private var batchWords: UnsafeMutablePointer<UInt64>
  private let batchKeys: UnsafeMutablePointer<UInt64>
  private let batchOrigins: UnsafeMutablePointer<UInt32>
  private let batchHashes: UnsafeMutablePointer<UInt64>
  private let candidates: UnsafeMutablePointer<Int32>
  private let newPositions: UnsafeMutablePointer<Int32>
  private var filled = 0
  /// Whether to record the steps: for each step, its origin in the lower half and its target above it.
  private let recordsEdges: Bool
  private var edges = Chunked<UInt64>()

  /// The node numbers, in the tree, of the state loaded last and of one of its successors.
  private var numbers: UnsafeMutablePointer<UInt32>
  private var nextNumbers: UnsafeMutablePointer<UInt32>

  /// The words of the states of this level, which start at state `frontierStart`, and of the next
  /// level.
  ///
  /// Used only if the keys do not identify the states.
  private var frontier: [UInt64] = []
  private var frontierStart = 0
  private var nextFrontier: [UInt64] = []

  /// - Parameter budget: The memory budget, shared with the outboxes.
  init(
    stateWords: Int, storage: StateStorage, stateLimit: Int, budget: MemoryBudget,
    recordsEdges: Bool
  ) {
    self.recordsEdges = recordsEdges
    self.stateWords = stateWords
    self.stateLimit = stateLimit
    self.budget = budget
    representation =
      switch storage {
      case .exact: Self.exactRepresentation(stateWords)
      case .fingerprints: .fingerprint
      }
    keys = KeyTable(budget: budget)
    table = StateTable(width: stateWords, budget: budget)
    tree = StateTree(wordCount: stateWords, budget: budget)
    numbers = .allocate(capacity: tree.nodeCount)
    nextNumbers = .allocate(capacity: tree.nodeCount)
    batchWords = .allocate(capacity: Self.batchSize * stateWords)
    batchKeys = .allocate(capacity: Self.batchSize)
    batchOrigins = .allocate(capacity: Self.batchSize)
    batchHashes = .allocate(capacity: Self.batchSize)
    candidates = .allocate(capacity: Self.batchSize)
    newPositions = .allocate(capacity: Self.batchSize)
  }

  deinit {
    numbers.deallocate()
    nextNumbers.deallocate()
    batchWords.deallocate()
    batchKeys.deallocate()
    batchOrigins.deallocate()
    batchHashes.deallocate()
    candidates.deallocate()
    newPositions.deallocate()
  }

  /// The number of stored states, without the batch.
  var count: Int { origins.count }

  /// Whether a key is the state itself.
  var isWords: Bool { representation == .word }

  /// Whether states are stored, rather than only their fingerprints.
  var isExact: Bool { representation != .fingerprint }

  private static func exactRepresentation(_ words: Int) -> Representation {
    words == 1 ? .word : words <= flatWordLimit ? .words : .tree
  }

  /// Returns the key of a state: its fingerprint, if only fingerprints are stored.
  func key(of state: Int) -> UInt64 { keys.key(state) }

  /// Returns a pointer to a state of one word; the states up to the next multiple of
  /// `Chunked.chunkSize` follow it.
  func pointer(at state: Int) -> UnsafePointer<UInt64> { keys.pointer(at: state) }

  /// Returns the origin that was stored with a state.
  func origin(of state: Int) -> UInt32 { origins[state] }

  /// Starts the level whose first state has the given number.
  func beginLevel(at first: Int) {
    budget.release(8 * frontier.count)
    frontier = nextFrontier
    frontierStart = first
    nextFrontier = []
  }

  /// Calls a closure for each recorded step with its origin and its target.
  func forEachEdge(_ visit: (_ origin: UInt32, _ state: Int) -> Void) {
    for number in 0..<edges.count {
      visit(UInt32(truncatingIfNeeded: edges[number]), Int(edges[number] >> 32))
    }
  }

  /// Writes the words of a state. With fingerprints, only states of the current level are available.
  func load(_ state: Int, into words: UnsafeMutablePointer<UInt64>) {
    switch representation {
    case .word: words[0] = keys.key(state)
    case .words: words.update(from: table.pointer(at: state), count: stateWords)
    case .tree: tree.unpack(keys.key(state), into: words, numbers: numbers)
    case .fingerprint:
      let first = (state &- frontierStart) &* stateWords
      for word in 0..<stateWords { words[word] = frontier[first &+ word] }
    }
  }

  /// Returns the number of a state, or `nil` if it was not visited.
  func number(of words: UnsafePointer<UInt64>, fingerprint: UInt64) -> Int? {
    if representation == .words { return table.number(of: words) }
    let key: UInt64? =
      switch representation {
      case .word, .words: words[0]
      case .tree: tree.knownKey(of: words, numbers: nextNumbers)
      case .fingerprint: fingerprint
      }
    return key.flatMap { keys.number(of: $0) }.map(Int.init)
  }

  // MARK: Taking in

  /// Adds a state of one word to the batch.
  @inline(__always)
  func take(_ word: UInt64, origin: UInt32) {
    batchKeys[filled] = word
    batchOrigins[filled] = origin
    filled &+= 1
    if filled == Self.batchSize { flush() }
  }

  /// Adds a state to the batch.
  func take(_ words: UnsafePointer<UInt64>, fingerprint: UInt64, origin: UInt32) {
    let key: UInt64 =
      switch representation {
      case .word: words[0]
      case .words: 0
      case .tree: tree.key(of: words, numbers: nextNumbers)
      case .fingerprint: fingerprint
      }
    take(key, words, origin)
  }

  /// Adds a successor of the state loaded last to the batch.
  func take(
    _ words: UnsafePointer<UInt64>, after loaded: UnsafePointer<UInt64>, fingerprint: UInt64,
    origin: UInt32
  ) {
    guard representation == .tree else {
      take(words, fingerprint: fingerprint, origin: origin)
      return
    }
    nextNumbers.update(from: numbers, count: tree.nodeCount)
    take(tree.key(of: words, changedFrom: loaded, numbers: nextNumbers), origin: origin)
  }

  private func take(_ key: UInt64, _ words: UnsafePointer<UInt64>, _ origin: UInt32) {
    if representation == .fingerprint || representation == .words {
      let place = batchWords + filled &* stateWords
      for word in 0..<stateWords { place[word] = words[word] }
    }
    take(key, origin: origin)
  }

  /// Stores the new states of the batch.
  @inline(never)
  func flush() {
    let count = filled
    filled = 0
    guard limit == nil else { return }
    while origins.count + count > origins.capacity {
      origins.addChunk()
      budget.take(origins.chunkByteCount)
    }
    guard representation == .words ? table.reserve(count) : keys.reserve(count), !budget.isExceeded
    else {
      limit = .memory
      return
    }
    let newCount =
      representation == .words
      ? table.intern(
        batchWords, count: count, hashes: batchHashes, candidates: candidates,
        newPositions: newPositions)
      : keys.intern(
        batchKeys, count: count, hashes: batchHashes, candidates: candidates,
        newPositions: newPositions)
    for place in 0..<newCount { origins.append(batchOrigins[Int(newPositions[place])]) }
    if representation == .fingerprint {
      for place in 0..<newCount {
        let words = batchWords + Int(newPositions[place]) * stateWords
        for word in 0..<stateWords { nextFrontier.append(words[word]) }
      }
      budget.take(8 * stateWords * newCount)
    }
    if recordsEdges { recordEdges(count) }
    if origins.count > stateLimit { limit = .states }
  }

  /// Records the steps to the states of the batch.
  private func recordEdges(_ count: Int) {
    while edges.count + count > edges.capacity {
      edges.addChunk()
      budget.take(edges.chunkByteCount)
    }
    for place in 0..<count where batchOrigins[place] != Self.noOrigin {
      let number =
        representation == .words
        ? table.number(of: batchWords + place * stateWords)
        : keys.number(of: batchKeys[place]).map(Int.init)
      if let number { edges.append(UInt64(batchOrigins[place]) | UInt64(number) << 32) }
    }
  }

  // MARK: Growing

  /// Stores all states again, with other fields.
  ///
  /// If that takes too much memory, the stored states are unchanged, and the store accepts no more
  /// states.
  func change(from smaller: FieldLayout, to larger: FieldLayout) -> Bool {
    let moves = FieldMoves(from: smaller, to: larger)
    switch representation {
    case .fingerprint:
      let before = frontier.count + nextFrontier.count
      frontier = Self.map(frontier, smaller, larger, moves)
      nextFrontier = Self.map(nextFrontier, smaller, larger, moves)
      budget.take(8 * (frontier.count + nextFrontier.count - before))
    case .word where larger.wordCount == 1:
      keys.replaceKeys { key in
        var changed: UInt64 = 0
        withUnsafePointer(to: key) { moves.apply($0, to: &changed) }
        return changed
      }
    case .word, .words, .tree:
      guard copy(width: larger.wordCount, moves) else {
        limit = .memory
        return false
      }
    }
    stateWords = larger.wordCount
    batchWords.deallocate()
    batchWords = .allocate(capacity: Self.batchSize * stateWords)
    return true
  }

  /// Copies all states to new tables.
  private func copy(width: Int, _ moves: FieldMoves) -> Bool {
    let newRepresentation = Self.exactRepresentation(width)
    var newKeys = KeyTable(budget: budget)
    var newTable = StateTable(width: width, budget: budget)
    var newTree = StateTree(wordCount: width, budget: budget)
    let newNumbers = UnsafeMutablePointer<UInt32>.allocate(capacity: newTree.nodeCount)
    let words = UnsafeMutablePointer<UInt64>.allocate(capacity: stateWords)
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
    numbers.deallocate()
    nextNumbers.deallocate()
    numbers = newNumbers
    nextNumbers = .allocate(capacity: newTree.nodeCount)
    keys = newKeys
    table = newTable
    tree = newTree
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

/// The way in which visited states are stored.
package enum StateStorage: Sendable {
  /// Exactly: as the words of the state or, for a state of many words, as a tree of interned words.
  case exact
  /// As 64-bit fingerprints, which need less memory if states are large. A state may be mistaken
  /// for another state and be left out. See ``ExplorationResult/omissionProbability``.
  /// - Parameter seed: The seed of the fingerprints; another seed confuses other states.
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
  let limit: Int
  private(set) var used = 0
  private(set) var peak = 0

  init(limit: Int) {
    self.limit = limit
  }

  var isExceeded: Bool { used > limit }

  func allows(_ byteCount: Int) -> Bool { byteCount <= limit - used }

  func take(_ byteCount: Int) {
    used += byteCount
    peak = max(peak, used)
  }

  func release(_ byteCount: Int) { used -= byteCount }
}
