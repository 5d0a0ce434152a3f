/// The rules that send on entering a state, found by the state's case: an entry costs what its own rules
/// cost, however many there are.
@usableFromInline
struct SenderRules<State: DSLCompatible>: Sendable {
  /// For each case those that may be about it, in the order declared; empty where no rule names a case.
  private let ofCase: [[Sender<State>]]
  /// In the order declared.
  private let all: [Sender<State>]

  init(_ senders: [Sender<State>]) {
    all = senders
    // By hand: what the standard library does in generic code has it look for conformances.
    var isAboutCases = false
    for sender in senders where sender.cases != nil { isAboutCases = true }
    var ofCase: [[Sender<State>]] = []
    if isAboutCases {
      for tag in 0..<EnumCases<State>.descriptions.count {
        var rules: [Sender<State>] = []
        for sender in senders where sender.cases?.contains(tag) ?? true { rules.append(sender) }
        ofCase.append(rules)
      }
    }
    self.ofCase = ofCase
  }

  @usableFromInline var isEmpty: Bool { all.isEmpty }

  /// Sends what is to be sent on entering the state.
  @usableFromInline
  func fire(_ state: State) {
    guard !ofCase.isEmpty, let tag = EnumCases<State>.tag(of: state), tag < ofCase.count else {
      for sender in all { sender.fire(state) }
      return
    }
    for sender in ofCase[tag] { sender.fire(state) }
  }
}
