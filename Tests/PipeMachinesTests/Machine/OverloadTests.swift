import PipeMachines
import Testing

private enum Light: DSLCompatible, Equatable {
  case green, amber, red(seconds: Int), broken(String, Int)
}
private enum Tick: DSLCompatible { case tick, wait(Int), repair(String, Int) }
private enum Lamp: DSLCompatible, Equatable { case shine, blink(Int) }

/// One form of an `On`: written directly into the closure of a `When`, and kept as a value.
private struct Spelling: CustomTestStringConvertible, Sendable {
  let testDescription: String
  /// The event of the `On`, and its target from `green`.
  let event: Tick
  let target: Light
  let isAsynchronous: Bool
  /// Machines that differ only in the use of the `On`: written into the `When`, kept as a value that
  /// the `When` lists, kept in a list, and kept without being listed.
  let machines: [(use: String, machine: StateMachine<Light, Tick, Never>)]

  init(
    _ name: String, _ event: Tick, to target: Light = .amber, asynchronous: Bool = false,
    kept: On<Light, Tick>,
    @OnBuilder<Light, Tick> listed: @escaping @Sendable () -> Transitions<Light, Tick>
  ) {
    testDescription = name
    self.event = event
    self.target = target
    isAsynchronous = asynchronous
    machines = [
      ("listed", Self.machine(listed)),
      ("kept", Self.machine { kept }),
      ("in a list", Self.machine { [kept] }),
    ]
  }

  static func machine(
    @OnBuilder<Light, Tick> _ transitions: @escaping @Sendable () -> Transitions<Light, Tick>
  ) -> StateMachine<Light, Tick, Never> {
    StateMachine(initial: .green) { When(state: .green, transitions: transitions) }
  }
}

private func after(_ transition: Transition<Light>) async -> Transition<Light> {
  await Task.yield()
  return transition
}

private let synchronous: [Spelling] = [
  Spelling("an event", .tick, to: .amber, kept: On(event: .tick) { Transition(to: .amber) }) {
    On(event: .tick) { Transition(to: .amber) }
  },
  Spelling(
    "an event, received", .tick, to: .amber, kept: On(event: .tick) { _ in Transition(to: .amber) }
  ) {
    On(event: .tick) { _ in Transition(to: .amber) }
  },
  Spelling(
    "an event, guarded", .tick, to: .amber,
    kept: On(event: .tick) {
      Guard(predicate: true)
    } transition: {
      Transition(to: .amber)
    }
  ) {
    On(event: .tick) {
      Guard(predicate: true)
    } transition: {
      Transition(to: .amber)
    }
  },
  Spelling(
    "an event, received, guarded", .tick, to: .amber,
    kept: On(event: .tick) { _ in
      Guard(predicate: true)
    } transition: { _ in
      Transition(to: .amber)
    }
  ) {
    On(event: .tick) { _ in
      Guard(predicate: true)
    } transition: { _ in
      Transition(to: .amber)
    }
  },
  Spelling(
    "a case of one value", .wait(4), to: .red(seconds: 4),
    kept: On(event: Tick.wait) { seconds in Transition(to: .red(seconds: seconds)) }
  ) {
    On(event: Tick.wait) { seconds in Transition(to: .red(seconds: seconds)) }
  },
  Spelling(
    "a case of one value, guarded", .wait(4), to: .red(seconds: 4),
    kept: On(event: Tick.wait) { seconds in
      Guard(predicate: seconds == 4)
    } transition: { seconds in
      Transition(to: .red(seconds: seconds))
    }
  ) {
    On(event: Tick.wait) { seconds in
      Guard(predicate: seconds == 4)
    } transition: { seconds in
      Transition(to: .red(seconds: seconds))
    }
  },
  Spelling(
    "a case of two values", .repair("lens", 2), to: .broken("lens", 2),
    kept: On(event: Tick.repair) { part, count in Transition(to: .broken(part, count)) }
  ) {
    On(event: Tick.repair) { part, count in Transition(to: .broken(part, count)) }
  },
  Spelling(
    "a case of two values, guarded", .repair("lens", 2), to: .broken("lens", 2),
    kept: On(event: Tick.repair) { _, count in
      Guard(predicate: count == 2)
    } transition: { part, count in
      Transition(to: .broken(part, count))
    }
  ) {
    On(event: Tick.repair) { _, count in
      Guard(predicate: count == 2)
    } transition: { part, count in
      Transition(to: .broken(part, count))
    }
  },
  Spelling(
    "several events", .tick, to: .amber,
    kept: On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) { Transition(to: .amber) }
  ) {
    On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) { Transition(to: .amber) }
  },
  Spelling(
    "several events, received", .tick, to: .amber,
    kept: On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) { _ in Transition(to: .amber) }
  ) {
    On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) { _ in Transition(to: .amber) }
  },
  Spelling(
    "several events, guarded", .tick, to: .amber,
    kept: On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) {
      Guard(predicate: true)
    } transition: {
      Transition(to: .amber)
    }
  ) {
    On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) {
      Guard(predicate: true)
    } transition: {
      Transition(to: .amber)
    }
  },
  Spelling(
    "several events, received, guarded", .tick, to: .amber,
    kept: On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) { _ in
      Guard(predicate: true)
    } transition: { _ in
      Transition(to: .amber)
    }
  ) {
    On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) { _ in
      Guard(predicate: true)
    } transition: { _ in
      Transition(to: .amber)
    }
  },
]

private let asynchronous: [Spelling] = [
  Spelling(
    "an event, asynchronous", .tick, to: .amber, asynchronous: true,
    kept: On(event: .tick) { await after(Transition(to: .amber)) }
  ) {
    On(event: .tick) { await after(Transition(to: .amber)) }
  },
  Spelling(
    "an event, received, asynchronous", .tick, to: .amber, asynchronous: true,
    kept: On(event: .tick) { _ in await after(Transition(to: .amber)) }
  ) {
    On(event: .tick) { _ in await after(Transition(to: .amber)) }
  },
  Spelling(
    "an event, guarded, asynchronous", .tick, to: .amber, asynchronous: true,
    kept: On(event: .tick) {
      Guard(predicate: true)
    } transition: {
      await after(Transition(to: .amber))
    }
  ) {
    On(event: .tick) {
      Guard(predicate: true)
    } transition: {
      await after(Transition(to: .amber))
    }
  },
  Spelling(
    "an event, received, guarded, asynchronous", .tick, to: .amber, asynchronous: true,
    kept: On(event: .tick) { _ in
      Guard(predicate: true)
    } transition: { _ in
      await after(Transition(to: .amber))
    }
  ) {
    On(event: .tick) { _ in
      Guard(predicate: true)
    } transition: { _ in
      await after(Transition(to: .amber))
    }
  },
  Spelling(
    "a case of one value, asynchronous", .wait(4), to: .red(seconds: 4), asynchronous: true,
    kept: On(event: Tick.wait) { seconds in await after(Transition(to: .red(seconds: seconds))) }
  ) {
    On(event: Tick.wait) { seconds in await after(Transition(to: .red(seconds: seconds))) }
  },
  Spelling(
    "a case of one value, guarded, asynchronous", .wait(4), to: .red(seconds: 4),
    asynchronous: true,
    kept: On(event: Tick.wait) { seconds in
      Guard(predicate: seconds == 4)
    } transition: { seconds in
      await after(Transition(to: .red(seconds: seconds)))
    }
  ) {
    On(event: Tick.wait) { seconds in
      Guard(predicate: seconds == 4)
    } transition: { seconds in
      await after(Transition(to: .red(seconds: seconds)))
    }
  },
  Spelling(
    "a case of two values, asynchronous", .repair("lens", 2), to: .broken("lens", 2),
    asynchronous: true,
    kept: On(event: Tick.repair) { part, count in await after(Transition(to: .broken(part, count)))
    }
  ) {
    On(event: Tick.repair) { part, count in await after(Transition(to: .broken(part, count))) }
  },
  Spelling(
    "a case of two values, guarded, asynchronous", .repair("lens", 2), to: .broken("lens", 2),
    asynchronous: true,
    kept: On(event: Tick.repair) { _, count in
      Guard(predicate: count == 2)
    } transition: { part, count in
      await after(Transition(to: .broken(part, count)))
    }
  ) {
    On(event: Tick.repair) { _, count in
      Guard(predicate: count == 2)
    } transition: { part, count in
      await after(Transition(to: .broken(part, count)))
    }
  },
  Spelling(
    "several events, asynchronous", .tick, to: .amber, asynchronous: true,
    kept: On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) { await after(Transition(to: .amber)) }
  ) {
    On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) { await after(Transition(to: .amber)) }
  },
  Spelling(
    "several events, received, asynchronous", .tick, to: .amber, asynchronous: true,
    kept: On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) { _ in await after(Transition(to: .amber)) }
  ) {
    On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) { _ in await after(Transition(to: .amber)) }
  },
  Spelling(
    "several events, guarded, asynchronous", .tick, to: .amber, asynchronous: true,
    kept: On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) {
      Guard(predicate: true)
    } transition: {
      await after(Transition(to: .amber))
    }
  ) {
    On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) {
      Guard(predicate: true)
    } transition: {
      await after(Transition(to: .amber))
    }
  },
  Spelling(
    "several events, received, guarded, asynchronous", .tick, to: .amber, asynchronous: true,
    kept: On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) { _ in
      Guard(predicate: true)
    } transition: { _ in
      await after(Transition(to: .amber))
    }
  ) {
    On(
      events: OneOf {
        Tick.tick; Tick.wait
      }
    ) { _ in
      Guard(predicate: true)
    } transition: { _ in
      await after(Transition(to: .amber))
    }
  },
]

/// One form of a `When`, its state's output, and whether `tick` has a transition.
private struct Description: CustomTestStringConvertible, Sendable {
  let testDescription: String
  let state: Light
  let output: Lamp?
  let leadsOn: Bool
  let machine: StateMachine<Light, Tick, Lamp>

  init(
    _ name: String, _ state: Light, gives output: Lamp?, leadsOn: Bool = true,
    @WhenBuilder<Light, Tick, Lamp> _ whens: () -> Whens<Light, Tick, Lamp>
  ) {
    testDescription = name
    self.state = state
    self.output = output
    self.leadsOn = leadsOn
    machine = StateMachine(initial: .green, whens)
  }
}

private let several = OneOf {
  Light.green; Light.amber
}

private let descriptions: [Description] = [
  Description("a state", .green, gives: .shine) {
    When(state: .green) {
      Execute(output: .shine)
    } transitions: {
      On(event: .tick) { Transition(to: .amber) }
    }
  },
  Description("a state, no output", .green, gives: nil) {
    When(state: .green) {
      Execute.noOutput
    } transitions: {
      On(event: .tick) { Transition(to: .amber) }
    }
  },
  Description("a state, its output received", .green, gives: .shine) {
    When(state: .green) { _ in
      Execute(output: .shine)
    } transitions: {
      On(event: .tick) { Transition(to: .amber) }
    }
  },
  Description("a state, received", .green, gives: .shine) {
    When(state: .green) { _ in
      Execute(output: .shine)
    } transitions: { _ in
      On(event: .tick) { Transition(to: .amber) }
    }
  },
  Description("a state without an output", .green, gives: nil) {
    When(state: .green) { On(event: .tick) { Transition(to: .amber) } }
  },
  Description("a state without transitions", .green, gives: .shine, leadsOn: false) {
    When(state: .green) { Execute(output: .shine) }
  },
  Description("a case of one value", .red(seconds: 3), gives: .blink(3)) {
    When(state: Light.red) { seconds in
      Execute(output: .blink(seconds))
    } transitions: { _ in
      On(event: .tick) { Transition(to: .amber) }
    }
  },
  Description("a case of one value without an output", .red(seconds: 3), gives: nil) {
    When(state: Light.red) { _ in On(event: .tick) { Transition(to: .amber) } }
  },
  Description(
    "a case of one value without transitions", .red(seconds: 3), gives: .blink(3), leadsOn: false
  ) {
    When(state: Light.red) { seconds in Execute(output: .blink(seconds)) }
  },
  Description("a case of two values", .broken("lens", 2), gives: .blink(2)) {
    When(state: Light.broken) { _, count in
      Execute(output: .blink(count))
    } transitions: { _, _ in
      On(event: .tick) { Transition(to: .amber) }
    }
  },
  Description("a case of two values without an output", .broken("lens", 2), gives: nil) {
    When(state: Light.broken) { _, _ in On(event: .tick) { Transition(to: .amber) } }
  },
  Description(
    "a case of two values without transitions", .broken("lens", 2), gives: .blink(2), leadsOn: false
  ) {
    When(state: Light.broken) { _, count in Execute(output: .blink(count)) }
  },
  Description("several states", .amber, gives: .shine) {
    When(states: several) {
      Execute(output: .shine)
    } transitions: {
      On(event: .tick) { Transition(to: .amber) }
    }
  },
  Description("several states, the output received", .amber, gives: .shine) {
    When(states: several) { _ in
      Execute(output: .shine)
    } transitions: {
      On(event: .tick) { Transition(to: .amber) }
    }
  },
  Description("several states, received", .amber, gives: .shine) {
    When(states: several) { _ in
      Execute(output: .shine)
    } transitions: { _ in
      On(event: .tick) { Transition(to: .amber) }
    }
  },
  Description("several states without an output", .amber, gives: nil) {
    When(states: several) { On(event: .tick) { Transition(to: .amber) } }
  },
  Description("several states without an output, received", .amber, gives: nil) {
    When(states: several) { _ in On(event: .tick) { Transition(to: .amber) } }
  },
  Description("several states without transitions", .amber, gives: .shine, leadsOn: false) {
    When(states: several) { _ in Execute(output: .shine) }
  },
]

/// Compares every form with its expected effect. If the compiler prefers a wrong overload of `On`
/// or `When`, a rule silently has no effect.
@Suite("Every form of On and When")
struct OverloadTests {
  @Test(
    "An 'On' keeps its transition, whether it is in a 'When', in a constant or in a list",
    arguments: synchronous + asynchronous)
  fileprivate func on(_ spelling: Spelling) async throws {
    for (use, machine) in spelling.machines {
      switch machine.reduce(.green, spelling.event) {
      case .next(let next):
        #expect(next == spelling.target, "\(use)")
        #expect(!spelling.isAsynchronous, "\(use)")
      case .suspended(let run):
        #expect(try await run() == spelling.target, "\(use)")
        #expect(spelling.isAsynchronous, "\(use)")
      case .refused(let refusal):
        Issue.record("\(use): refused, \(refusal)")
      case .stays, .ignored:
        Issue.record("\(use): enters no state")
      }
      #expect(machine.asynchronousEvents.isEmpty == !spelling.isAsynchronous, "\(use)")
    }
  }

  @Test("A 'When' keeps its output and its transitions", arguments: descriptions)
  fileprivate func when(_ description: Description) {
    let machine = description.machine
    #expect(machine.output(description.state) == description.output)
    switch machine.reduce(description.state, .tick) {
    case .next(let next): #expect(next == .amber && description.leadsOn)
    case .refused(let refusal): #expect(refusal == .noTransition && !description.leadsOn)
    case .stays, .ignored, .suspended: Issue.record("no transition to another state")
    }
  }
}
