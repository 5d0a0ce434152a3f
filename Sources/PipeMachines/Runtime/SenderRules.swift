/// The rules that send on entry into a state, indexed by the state's case. The cost of an entry
/// depends only on the rules for that case, not on the total number of rules.
@usableFromInline
struct SenderRules<State: DSLCompatible>: Sendable {
  /// The action of a rule, without the rule's description. The references in the description would
  /// cost reference counting at each entry.
  fileprivate struct Rule: Sendable {
    let fire: @Sendable (State) -> Void
    /// The index of the rule's pipe in the list of pipes that the machine sends into.
    let pipe: Int
  }

  /// For each case, the rules that may apply to it, in declared order; empty if no rule names a
  /// case.
  private let rulesByCase: [[Rule]]
  /// All rules, in declared order.
  private let all: [Rule]

  /// - Parameter pipes: The pipes that the machine sends into.
  init(_ senders: [SendRule<State>], into pipes: [SendTarget]) {
    var all: [Rule] = []
    for sender in senders { all.append(Rule(sender, into: pipes)) }
    self.all = all
    // A loop, because functions of the standard library in generic code cause lookups of
    // conformances at run time.
    var hasCaseRules = false
    for sender in senders where sender.cases != nil { hasCaseRules = true }
    var rulesByCase: [[Rule]] = []
    if hasCaseRules {
      for tag in 0..<EnumCases<State>.descriptions.count {
        var rules: [Rule] = []
        for sender in senders where sender.cases?.contains(tag) ?? true {
          rules.append(Rule(sender, into: pipes))
        }
        rulesByCase.append(rules)
      }
    }
    self.rulesByCase = rulesByCase
  }

  @usableFromInline var isEmpty: Bool { all.isEmpty }

  /// Applies the rules for entry into the state.
  /// - Parameter sent: Called after each rule, with the index of the pipe that the rule may have
  ///   sent into.
  func fire(_ state: State, sent: (Int) -> Void) {
    guard !rulesByCase.isEmpty, let tag = EnumCases<State>.tag(of: state), tag < rulesByCase.count
    else {
      for rule in all {
        rule.fire(state)
        sent(rule.pipe)
      }
      return
    }
    for rule in rulesByCase[tag] {
      rule.fire(state)
      sent(rule.pipe)
    }
  }
}

extension SenderRules.Rule {
  fileprivate init(_ sender: SendRule<State>, into pipes: [SendTarget]) {
    fire = sender.fire
    pipe = sender.place(in: pipes)
  }
}
