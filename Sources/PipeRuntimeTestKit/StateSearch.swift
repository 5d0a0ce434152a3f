import PipeRuntime

/// Looks through the states of one node for a sequence of patterns, state by state.
struct StateSearch: Sendable {
  /// Whether other states may lie between those of the patterns.
  enum Order: Sendable { case inOrder, exactly }

  let patterns: [StatePattern]
  let order: Order
  private var matched: [StateChange] = []

  init(_ patterns: [StatePattern], _ order: Order) {
    self.patterns = patterns
    self.order = order
  }

  /// Takes the next state. Returns the states found once all patterns have theirs.
  mutating func take(_ change: StateChange) -> [StateChange]? {
    switch order {
    case .inOrder:
      if patterns[matched.count].accepts(change.state) { matched.append(change) }
    case .exactly:
      // The longest run of states that ends here and matches the first patterns.
      var run = change.missed == 0 ? matched + [change] : [change]
      while !run.isEmpty, !zip(run, patterns).allSatisfy({ $1.accepts($0.state) }) {
        run.removeFirst()
      }
      matched = run
    }
    return matched.count == patterns.count ? matched : nil
  }

  /// What is looked for, in words.
  var description: String {
    let list = patterns.map(\.description).joined(separator: ", ")
    guard patterns.count > 1 else { return list }
    return order == .inOrder ? "\(list) in this order" : "exactly \(list)"
  }
}
