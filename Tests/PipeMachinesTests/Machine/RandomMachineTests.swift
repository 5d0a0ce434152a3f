import PipeMachines
import TestSupport
import Testing

// The machines of this test are data: their transitions, in order, with guards. One function builds
// a machine of the machine language from the data, and another interprets the data directly.

private enum Place: DSLCompatible, Equatable {
  case bare, empty
  case counted(Int)
  case named(String, count: Int)
  indirect case within(Place, Int)

  static let caseCount = 5

  init(_ index: Int, _ number: Int) {
    switch index {
    case 0: self = .bare
    case 1: self = .empty
    case 2: self = .counted(number)
    case 3: self = .named("name \(number)", count: number)
    default: self = .within(.counted(number), number)
    }
  }

  var index: Int {
    switch self {
    case .bare: 0
    case .empty: 1
    case .counted: 2
    case .named: 3
    case .within: 4
    }
  }

  /// The number in the associated values.
  var number: Int {
    switch self {
    case .bare, .empty: 0
    case .counted(let number), .named(_, let number), .within(_, let number): number
    }
  }
}

private enum Move: DSLCompatible, Equatable {
  case go, stop
  case jump(Int)
  case leap(by: Int)
  case call(String, Int)

  init(_ index: Int, _ number: Int) {
    switch index {
    case 0: self = .go
    case 1: self = .stop
    case 2: self = .jump(number)
    case 3: self = .leap(by: number)
    default: self = .call("call \(number)", number)
    }
  }

  static let caseCount = 5

  var index: Int {
    switch self {
    case .go: 0
    case .stop: 1
    case .jump: 2
    case .leap: 3
    case .call: 4
    }
  }

  var number: Int {
    switch self {
    case .go, .stop: 0
    case .jump(let number), .leap(let number), .call(_, let number): number
    }
  }
}

private enum Sign: DSLCompatible, Equatable { case shown(Int) }

/// A rule of a machine: one `On`.
private struct Rule: Sendable {
  /// The events of the rule: one as a value or a constructor, or several.
  var events: [Int]
  /// A guard that passes if the sum of the numbers has this remainder, or `nil` for no guard.
  var guards: (divisor: Int, remainder: Int)?
  var target: Int
  var adds: Int

  func passes(_ state: Int, _ event: Int) -> Bool {
    guards.map { abs(state &+ event) % $0.divisor == $0.remainder } ?? true
  }

  func next(_ state: Int, _ event: Int) -> Place {
    Place(target, (state &+ event &+ adds) % 1_000)
  }
}

/// A description of states: one `When`.
private struct Description: Sendable {
  var states: [Int]
  /// The output if the number of the state is even.
  var output: Int?
  var rules: [Rule]
}

private struct Model: Sendable {
  var descriptions: [Description]

  init(_ random: inout some RandomNumberGenerator) {
    descriptions = (0..<Int.random(in: 1...7, using: &random)).map { _ in
      Description(
        states: Self.some(of: Place.caseCount, &random),
        output: Bool.random(using: &random) ? Int.random(in: 0..<9, using: &random) : nil,
        rules: (0..<Int.random(in: 0...6, using: &random)).map { _ in
          Rule(
            events: Self.some(of: Move.caseCount, &random),
            guards: Bool.random(using: &random)
              ? (Int.random(in: 1...3, using: &random), Int.random(in: 0...2, using: &random))
              : nil,
            target: Int.random(in: 0..<Place.caseCount, using: &random),
            adds: Int.random(in: 0..<100, using: &random))
        })
    }
  }

  /// Returns one of the indices, or, in a third of the calls, several of them.
  private static func some(of count: Int, _ random: inout some RandomNumberGenerator) -> [Int] {
    let all = Array(0..<count).shuffled(using: &random)
    let isOne = Int.random(in: 0..<3, using: &random) > 0
    return Array(all.prefix(isOne ? 1 : Int.random(in: 2...count, using: &random)))
  }
}

// The direct interpreter.
extension Model {
  func reduce(_ state: Place, _ event: Move) -> Reduction<Place> {
    var refusal = Refusal.noTransition
    for description in descriptions where description.states.contains(state.index) {
      for rule in description.rules where rule.events.contains(event.index) {
        if rule.passes(state.number, event.number) {
          return .next(rule.next(state.number, event.number))
        }
        refusal = .guard
      }
    }
    return .refused(refusal)
  }

  func output(_ state: Place) -> Sign? {
    guard let first = descriptions.first(where: { $0.states.contains(state.index) }),
      let output = first.output, state.number % 2 == 0
    else { return nil }
    return .shown(output)
  }

  /// The hidden rules: the state, the event, and the positions of both rules.
  var hidden: Set<[Int]> {
    var found: Set<[Int]> = []
    for state in 0..<Place.caseCount {
      for event in 0..<Move.caseCount {
        var first: [Int]?
        for (place, description) in descriptions.enumerated()
        where description.states.contains(state) {
          for (index, rule) in description.rules.enumerated() where rule.events.contains(event) {
            if let first { found.insert([state, event] + first + [place, index]) }
            if first == nil, rule.guards == nil { first = [place, index] }
          }
        }
      }
    }
    return found
  }
}

// The machine language.
extension Model {
  func machine(_ initial: Place) -> StateMachine<Place, Move, Sign> {
    StateMachine(initial: initial) {
      for description in descriptions { when(description) }
    }
  }

  private func when(_ description: Description) -> When<Place, Move, Sign> {
    let rules = description.rules
    @Sendable func execute(_ number: Int) -> Execute<Sign> {
      guard let output = description.output, number % 2 == 0 else { return .noOutput }
      return Execute(output: .shown(output))
    }
    guard description.states.count == 1 else {
      let states = OneOf<Place> {
        for state in description.states { Place(state, 7) }
      }
      return When(states: states) {
        execute($0.number)
      } transitions: { state in
        for rule in rules { on(rule, state.number) }
      }
    }
    switch description.states[0] {
    case 2:
      return When(state: Place.counted) {
        execute($0)
      } transitions: { number in
        for rule in rules { on(rule, number) }
      }
    case 3:
      return When(state: Place.named(_:count:)) {
        execute($1)
      } transitions: { _, number in
        for rule in rules { on(rule, number) }
      }
    case 4:
      return When(state: Place.within) {
        execute($1)
      } transitions: { _, number in
        for rule in rules { on(rule, number) }
      }
    case let state:
      return When(state: Place(state, 0)) {
        execute(0)
      } transitions: {
        for rule in rules { on(rule, 0) }
      }
    }
  }
}

/// Returns a rule as an `On`, in a form that its events allow.
private func on(_ rule: Rule, _ state: Int) -> On<Place, Move> {
  func move(_ event: Int) -> Transition<Place> { Transition(to: rule.next(state, event)) }
  func check(_ event: Int) -> Guard { Guard(predicate: rule.passes(state, event)) }
  let hasGuard = rule.guards != nil
  guard rule.events.count == 1 else {
    let events = OneOf<Move> {
      for event in rule.events { Move(event, 3) }
    }
    return hasGuard
      ? On(events: events) {
        check($0.number)
      } transition: {
        move($0.number)
      }
      : On(events: events) { move($0.number) }
  }
  switch rule.events[0] {
  case 2:
    return hasGuard
      ? On(event: Move.jump) {
        check($0)
      } transition: {
        move($0)
      }
      : On(event: Move.jump) { move($0) }
  case 3:
    return hasGuard
      ? On(event: Move.leap(by:)) {
        check($0)
      } transition: {
        move($0)
      }
      : On(event: Move.leap(by:)) { move($0) }
  case 4:
    return hasGuard
      ? On(event: Move.call) {
        check($1)
      } transition: {
        move($1)
      }
      : On(event: Move.call) { move($1) }
  case let event:
    return hasGuard
      ? On(event: Move(event, 0)) {
        check(0)
      } transition: {
        move(0)
      }
      : On(event: Move(event, 0)) { move(0) }
  }
}

@Suite("Random machines")
struct RandomMachineTests {
  @Test("A machine takes the same steps as a direct interpreter of its rules", arguments: 1...100)
  func steps(seed: UInt64) {
    var random = Seeded(state: seed)
    let model = Model(&random)
    let machine = model.machine(.bare)
    var state = machine.initial
    for _ in 0..<300 {
      let event = Move(
        Int.random(in: 0..<Move.caseCount, using: &random), Int.random(in: 0..<50, using: &random))
      let answer = machine.reduce(state, event)
      #expect(answer == model.reduce(state, event), "\(state) on \(event)")
      #expect(machine.output(state) == model.output(state), "\(state)")
      if case .next(let next) = answer, Int.random(in: 0..<20, using: &random) > 0 {
        state = next
      } else {
        // Continues from a random state, so that every part of the machine is reached.
        state = Place(
          Int.random(in: 0..<Place.caseCount, using: &random),
          Int.random(in: 0..<50, using: &random)
        )
      }
    }
  }

  @Test("A run passes through the same states as the interpreter", arguments: 1...20)
  func runs(seed: UInt64) async {
    var random = Seeded(state: seed &* 1_000)
    let model = Model(&random)
    var state = Place(Int.random(in: 0..<Place.caseCount, using: &random), 4)
    var expected = [state]
    let sequence = AsyncStateMachineSequence(stateMachine: model.machine(state))
    for _ in 0..<300 {
      let event = Move(
        Int.random(in: 0..<Move.caseCount, using: &random), Int.random(in: 0..<50, using: &random))
      let outcome = await sequence.send(event)
      switch model.reduce(state, event) {
      case .next(let next):
        #expect(outcome == .accepted(next))
        state = next
        expected.append(next)
      case .refused(let refusal): #expect(outcome == .refused(refusal))
      case .stays, .ignored, .suspended: Issue.record("the interpreter has no such transitions")
      }
    }
    sequence.finish()
    var states: [Place] = []
    for await state in sequence { states.append(state) }
    #expect(states == expected)
  }

  @Test(
    "'overlaps()' reports a rule as hidden if and only if the interpreter never uses the rule",
    arguments: 1...50)
  func overlaps(seed: UInt64) {
    var random = Seeded(state: seed &* 7)
    let model = Model(&random)
    // A `When` of several states that inspects them cannot be listed.
    guard model.descriptions.allSatisfy({ $0.states.count == 1 }) else { return }
    let machine = model.machine(.bare)
    let states = Dictionary(
      uniqueKeysWithValues: (0..<Place.caseCount).map {
        (EnumCases<Place>.name(of: Place($0, 0))!, $0)
      })
    let events = Dictionary(
      uniqueKeysWithValues: (0..<Move.caseCount).map {
        (EnumCases<Move>.name(of: Move($0, 0))!, $0)
      })
    let hidden = machine.overlaps().filter(\.isHidden).map {
      [
        states[$0.state]!, events[$0.event!]!, $0.first.when - 1, $0.first.on! - 1,
        $0.second.when - 1, $0.second.on! - 1,
      ]
    }
    #expect(Set(hidden) == model.hidden)
  }
}
