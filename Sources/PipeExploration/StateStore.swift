/// The states of one partition, numbered in the order in which they came.
///
/// What is found is gathered in a batch, and looked up together.
final class StateStore {
  /// How a state is kept.
  private enum Form {
    /// A state is one word, and its own key.
    case word
    case tree
    case fingerprint
  }

  /// The origin of the first state.
  static let noOrigin = UInt32.max
  private static let batchSize = 256

  let budget: MemoryBudget
  private let stateLimit: Int
  private var stateWords: Int
  private var form: Form
  private var keys: KeyTable
  private var tree: StateTree
  private var origins = Chunked<UInt32>()
  /// Why no more states are taken.
  private(set) var limit: ExplorationLimit?

  /// The states found since the last flush, and what is needed to look them up.
  private var batchWords: UnsafeMutablePointer<UInt64>
  private let batchKeys: UnsafeMutablePointer<UInt64>
  private let batchOrigins: UnsafeMutablePointer<UInt32>
  private let batchHashes: UnsafeMutablePointer<UInt64>
  private let candidates: UnsafeMutablePointer<Int32>
  private let fresh: UnsafeMutablePointer<Int32>
  private var filled = 0

  /// The numbers of the nodes in the tree of the state that was loaded last, and of one that it leads to.
  private var numbers: UnsafeMutablePointer<UInt32>
  private var nextNumbers: UnsafeMutablePointer<UInt32>

  /// The words of the states of this level, of which the first has this number, and of the next, where the
  /// keys do not tell them.
  private var frontier: [UInt64] = []
  private var firstOfFrontier = 0
  private var nextFrontier: [UInt64] = []

  /// - Parameter budget: The memory that may be taken, for outboxes as well.
  init(stateWords: Int, storage: StateStorage, stateLimit: Int, budget: MemoryBudget) {
    self.stateWords = stateWords
    self.stateLimit = stateLimit
    self.budget = budget
    form =
      switch storage {
      case .exact: stateWords == 1 ? .word : .tree
      case .fingerprints: .fingerprint
      }
    keys = KeyTable(budget: budget)
    tree = StateTree(wordCount: stateWords, budget: budget)
    numbers = .allocate(capacity: tree.nodeCount)
    nextNumbers = .allocate(capacity: tree.nodeCount)
    batchWords = .allocate(capacity: Self.batchSize * stateWords)
    batchKeys = .allocate(capacity: Self.batchSize)
    batchOrigins = .allocate(capacity: Self.batchSize)
    batchHashes = .allocate(capacity: Self.batchSize)
    candidates = .allocate(capacity: Self.batchSize)
    fresh = .allocate(capacity: Self.batchSize)
  }

  deinit {
    numbers.deallocate()
    nextNumbers.deallocate()
    batchWords.deallocate()
    batchKeys.deallocate()
    batchOrigins.deallocate()
    batchHashes.deallocate()
    candidates.deallocate()
    fresh.deallocate()
  }

  /// The states that are stored: those of the batch are not among them.
  var count: Int { keys.count }

  /// Whether keys are states.
  var isWords: Bool { form == .word }

  /// Whether keys tell states.
  var isExact: Bool { form != .fingerprint }

  /// The key under which a state is stored.
  func key(of state: Int) -> UInt64 { keys.key(state) }

  /// Where a key lies; those up to the next multiple of `Chunked.chunkSize` follow it.
  func pointer(at state: Int) -> UnsafePointer<UInt64> { keys.pointer(at: state) }

  /// What was given as the origin of a state.
  func origin(of state: Int) -> UInt32 { origins[state] }

  /// Goes on to the states from this one on.
  func beginLevel(at first: Int) {
    budget.giveBack(8 * frontier.count)
    frontier = nextFrontier
    firstOfFrontier = first
    nextFrontier = []
  }

  /// Writes the words of a state; with fingerprints only of one of this level.
  func load(_ state: Int, into words: UnsafeMutablePointer<UInt64>) {
    switch form {
    case .word: words[0] = keys.key(state)
    case .tree: tree.unpack(keys.key(state), into: words, numbers: numbers)
    case .fingerprint:
      let first = (state &- firstOfFrontier) &* stateWords
      for word in 0..<stateWords { words[word] = frontier[first &+ word] }
    }
  }

  /// The number of a state, or `nil` where it was not met.
  func number(of words: UnsafePointer<UInt64>, fingerprint: UInt64) -> Int? {
    let key: UInt64? =
      switch form {
      case .word: words[0]
      case .tree: tree.knownKey(of: words, numbers: nextNumbers)
      case .fingerprint: fingerprint
      }
    return key.flatMap { keys.number(of: $0) }.map(Int.init)
  }

  // MARK: Taking in

  /// Takes a state that is one word.
  @inline(__always)
  func take(_ word: UInt64, origin: UInt32) {
    batchKeys[filled] = word
    batchOrigins[filled] = origin
    filled &+= 1
    if filled == Self.batchSize { flush() }
  }

  /// Takes a state.
  func take(_ words: UnsafePointer<UInt64>, fingerprint: UInt64, origin: UInt32) {
    let key: UInt64 =
      switch form {
      case .word: words[0]
      case .tree: tree.key(of: words, numbers: nextNumbers)
      case .fingerprint: fingerprint
      }
    take(key, words, origin)
  }

  /// Takes a state that the one that was loaded last leads to.
  func take(
    _ words: UnsafePointer<UInt64>, after loaded: UnsafePointer<UInt64>, fingerprint: UInt64,
    origin: UInt32
  ) {
    guard form == .tree else {
      take(words, fingerprint: fingerprint, origin: origin)
      return
    }
    nextNumbers.update(from: numbers, count: tree.nodeCount)
    take(tree.key(of: words, changedFrom: loaded, numbers: nextNumbers), origin: origin)
  }

  private func take(_ key: UInt64, _ words: UnsafePointer<UInt64>, _ origin: UInt32) {
    if form == .fingerprint {
      let place = batchWords + filled &* stateWords
      for word in 0..<stateWords { place[word] = words[word] }
    }
    take(key, origin: origin)
  }

  /// Stores what the batch holds, and is not stored yet.
  @inline(never)
  func flush() {
    let count = filled
    filled = 0
    guard limit == nil else { return }
    while origins.count + count > origins.capacity {
      origins.addChunk()
      budget.take(Chunked<UInt32>.chunkByteCount)
    }
    guard keys.reserve(count), !budget.isExceeded else {
      limit = .memory
      return
    }
    let freshCount = keys.intern(
      batchKeys, count: count, hashes: batchHashes, candidates: candidates, fresh: fresh)
    for place in 0..<freshCount { origins.append(batchOrigins[Int(fresh[place])]) }
    if form == .fingerprint {
      for place in 0..<freshCount {
        let words = batchWords + Int(fresh[place]) * stateWords
        for word in 0..<stateWords { nextFrontier.append(words[word]) }
      }
      budget.take(8 * stateWords * freshCount)
    }
    if keys.count > stateLimit { limit = .states }
  }

  // MARK: Growing

  /// Stores all states anew, with other fields. Where that takes too much memory, all stays as it was, and
  /// no more states are taken.
  func change(from smaller: FieldLayout, to larger: FieldLayout) -> Bool {
    func changed(_ words: [UInt64]) -> [UInt64] { larger.encode(smaller.decode(words)) }
    switch form {
    case .fingerprint:
      let before = frontier.count + nextFrontier.count
      frontier = Self.map(frontier, width: stateWords, changed)
      nextFrontier = Self.map(nextFrontier, width: stateWords, changed)
      budget.take(8 * (frontier.count + nextFrontier.count - before))
    case .word where larger.wordCount == 1:
      keys.replaceKeys { changed([$0])[0] }
    case .word, .tree:
      guard copy(width: larger.wordCount, changed) else {
        limit = .memory
        return false
      }
    }
    stateWords = larger.wordCount
    batchWords.deallocate()
    batchWords = .allocate(capacity: Self.batchSize * stateWords)
    return true
  }

  /// Makes the tables anew, as a tree.
  private func copy(width: Int, _ change: ([UInt64]) -> [UInt64]) -> Bool {
    var newKeys = KeyTable(budget: budget)
    var newTree = StateTree(wordCount: width, budget: budget)
    let newNumbers = UnsafeMutablePointer<UInt32>.allocate(capacity: newTree.nodeCount)
    var words = [UInt64](repeating: 0, count: stateWords)
    for state in 0..<keys.count {
      words.withUnsafeMutableBufferPointer { words in
        if let start = words.baseAddress { load(state, into: start) }
      }
      _ = newKeys.intern(newTree.key(of: change(words), numbers: newNumbers))
      if budget.isExceeded {
        newNumbers.deallocate()
        return false
      }
    }
    numbers.deallocate()
    nextNumbers.deallocate()
    numbers = newNumbers
    nextNumbers = .allocate(capacity: newTree.nodeCount)
    keys = newKeys
    tree = newTree
    form = .tree
    return true
  }

  private static func map(
    _ words: [UInt64], width: Int, _ change: ([UInt64]) -> [UInt64]
  ) -> [UInt64] {
    stride(from: 0, to: words.count, by: width).flatMap { change(Array(words[$0..<($0 + width)])) }
  }
}
