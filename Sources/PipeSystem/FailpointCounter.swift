import PipeSupport

/// The failpoints of one process: how often each was hit, and what it does at a hit; a value.
package struct FailpointCounter: Sendable {
  package static let rulesVariable = "PIPERUNTIME_FAILPOINTS"
  /// The seed of the probabilities; 0 where it is not set.
  package static let seedVariable = "PIPERUNTIME_FAILPOINT_SEED"
  /// Names a file without which no failpoint acts; hits are counted all the same.
  package static let switchVariable = "PIPERUNTIME_FAILPOINT_SWITCH"

  private let rules: [FailpointRule]
  private var hits: [Failpoint: UInt64] = [:]
  private var generator: SplitMix64

  /// One that never acts.
  package init() { self.init(rules: [], seed: 0, node: "", incarnation: 0) }

  /// - Parameter seed: Mixed with the node and the incarnation, so that a restarted process does
  ///   not do what the one before it did.
  package init(rules: [FailpointRule], seed: UInt64, node: String, incarnation: UInt64) {
    self.rules = rules.filter { rule in
      (rule.node ?? node) == node && (rule.incarnation ?? incarnation) == incarnation
    }
    var mixed = seed
    for byte in node.utf8 { mixed = (mixed ^ UInt64(byte)) &* 0x100_0000_01B3 }
    generator = SplitMix64(seed: mixed &+ incarnation &* 0xD6E8_FEB8_6659_FD93)
  }

  /// What the environment says for this process; `nil` where it has no failpoint.
  package init?(
    node: String, incarnation: UInt64, environment: [String: String]
  ) throws(FailpointError) {
    guard let text = environment[Self.rulesVariable], !text.isEmpty else { return nil }
    let seedText = environment[Self.seedVariable] ?? "0"
    guard let seed = UInt64(seedText) else {
      throw FailpointError(seedText, "is no whole number", variable: Self.seedVariable)
    }
    self.init(
      rules: try FailpointRule.parse(list: text), seed: seed, node: node,
      incarnation: incarnation)
    if rules.isEmpty { return nil }
  }

  /// Counts a hit. Returns what it does, and the count; the first rule whose moment it is wins.
  package mutating func hit(_ point: Failpoint) -> (action: FailpointAction, count: UInt64)? {
    let count = hits[point, default: 0] + 1
    hits[point] = count
    var action: FailpointAction?
    for rule in rules where rule.point == point {
      // Every probability is drawn at every hit, so that one rule does not shift another's.
      if isDue(rule.moment, at: count), action == nil { action = rule.action }
    }
    return action.map { ($0, count) }
  }

  private mutating func isDue(_ moment: FailpointRule.Moment, at count: UInt64) -> Bool {
    switch moment {
    case .always: true
    case .hit(let number): number == count
    case .probability(let probability):
      Double.random(in: 0..<1, using: &generator) < probability
    }
  }
}
