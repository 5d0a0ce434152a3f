/// The rules that send an event when the machine enters a state, indexed by the state's case. With
/// this index, the cost of an entry depends only on the number of rules for that case.
@usableFromInline
struct SenderRules<State: DSLCompatible>: Sendable {
  /// A rule without its description, because the description's references would cost reference
  /// counting at each entry.
  fileprivate struct Rule: Sendable {
    let fire: @Sendable (State) -> Void
    /// The index of the rule's pipe in the list of pipes that the machine sends into.
    let pipeIndex: Int
  }

  /// For each case, the rules that may apply to it, in declared order; empty if no rule names a
  /// case.
  private let rulesByCase: [[Rule]]
  /// All rules, in declared order.
  private let allRules: [Rule]

  /// Indexes rules by the cases that they apply to.
  /// - Parameter pipes: The pipes that the machine sends into.
  init(_ senders: [SendRule<State>], into pipes: [SendTarget]) {
    var all: [Rule] = []
    for sender in senders { all.append(Rule(sender, into: pipes)) }
    self.allRules = all
    // Written as a loop, because the standard library's generic functions would look up
    // conformances at run time.
    var hasCaseRules = false
    for sender in senders where sender.caseTags != nil { hasCaseRules = true }
    var rulesByCase: [[Rule]] = []
    if hasCaseRules {
      for tag in 0..<EnumCases<State>.descriptions.count {
        var rules: [Rule] = []
        for sender in senders where sender.caseTags?.contains(tag) ?? true {
          rules.append(Rule(sender, into: pipes))
        }
        rulesByCase.append(rules)
      }
    }
    self.rulesByCase = rulesByCase
  }

  @usableFromInline var isEmpty: Bool { allRules.isEmpty }

  /// Applies the rules for entry into the state.
  /// - Parameter sent: Called after each rule, with the index of the pipe that the rule may have
  ///   sent into.
  func fire(_ state: State, sent: (Int) -> Void) {
    guard !rulesByCase.isEmpty, let tag = EnumCases<State>.tag(of: state), tag < rulesByCase.count
    else {
      for rule in allRules {
        rule.fire(state)
        sent(rule.pipeIndex)
      }
      return
    }
    for rule in rulesByCase[tag] {
      rule.fire(state)
      sent(rule.pipeIndex)
    }
  }
}

extension SenderRules.Rule {
  fileprivate init(_ sender: SendRule<State>, into pipes: [SendTarget]) {
    fire = sender.fire
    pipeIndex = sender.pipeIndex(in: pipes)
  }
}
