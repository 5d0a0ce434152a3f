/// The rules that send on entering a state, found by the state's case: an entry costs what its own rules
/// cost, however many there are.
@usableFromInline
struct SenderRules<State: DSLCompatible>: Sendable {
  /// What a rule does. Without what describes it, which would be counted with each entry.
  fileprivate struct Rule: Sendable {
    let fire: @Sendable (State) -> Void
    /// The place of its pipe among those that the machine sends into.
    let pipe: Int
  }

  /// For each case those that may be about it, in the order declared; empty where no rule names a case.
  private let ofCase: [[Rule]]
  /// In the order declared.
  private let all: [Rule]

  /// - Parameter pipes: Those that the machine sends into.
  init(_ senders: [Sender<State>], into pipes: [SentPipe]) {
    var all: [Rule] = []
    for sender in senders { all.append(Rule(sender, into: pipes)) }
    self.all = all
    // By hand: what the standard library does in generic code has it look for conformances.
    var isAboutCases = false
    for sender in senders where sender.cases != nil { isAboutCases = true }
    var ofCase: [[Rule]] = []
    if isAboutCases {
      for tag in 0..<EnumCases<State>.descriptions.count {
        var rules: [Rule] = []
        for sender in senders where sender.cases?.contains(tag) ?? true {
          rules.append(Rule(sender, into: pipes))
        }
        ofCase.append(rules)
      }
    }
    self.ofCase = ofCase
  }

  @usableFromInline var isEmpty: Bool { all.isEmpty }

  /// Sends what is to be sent on entering the state.
  /// - Parameter sent: Called behind each rule with the place of its pipe, which may have less room by now.
  func fire(_ state: State, sent: (Int) -> Void) {
    guard !ofCase.isEmpty, let tag = EnumCases<State>.tag(of: state), tag < ofCase.count else {
      for rule in all {
        rule.fire(state)
        sent(rule.pipe)
      }
      return
    }
    for rule in ofCase[tag] {
      rule.fire(state)
      sent(rule.pipe)
    }
  }
}

extension SenderRules.Rule {
  fileprivate init(_ sender: Sender<State>, into pipes: [SentPipe]) {
    fire = sender.fire
    pipe = sender.place(in: pipes)
  }
}
