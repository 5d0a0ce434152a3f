import PipeMachines
import Synchronization
import Testing

private enum Light: DSLCompatible, Equatable {
  case red(seconds: Int), green, amber, broken(String)
}
private enum Tick: DSLCompatible { case tick, wait(Int), repair(String, Int), smash, fix }
private enum Lamp: DSLCompatible, Equatable { case shine(Int), blink }

@Suite("Transitions, guards and builders")
struct TransitionTests {
  @Test("A step evaluates each guard at most once, and evaluates no guard after a match")
  func guards() {
    let calls = Mutex<[String]>([])
    @Sendable func note(_ name: String, _ passes: Bool) -> Bool {
      calls.withLock { $0.append(name) }
      return passes
    }
    let machine = StateMachine<Light, Tick, Lamp>(initial: .green) {
      When(state: .green) {
        On(event: .tick) {
          Guard(predicate: note("first", false))
        } transition: {
          Transition(to: .amber)
        }
        On(event: .tick) {
          Guard(predicate: note("second", true))
        } transition: {
          Transition(to: .red(seconds: 3))
        }
        On(event: .tick) {
          Guard(predicate: note("third", true))
        } transition: {
          Transition(to: .amber)
        }
      }
    }
    #expect(machine.reduce(.green, .tick) == .next(.red(seconds: 3)))
    #expect(calls.withLock { $0 } == ["first", "second"])
    #expect(machine.reduce(.green, .smash) == .refused(.noTransition))
    #expect(calls.withLock { $0.count } == 2)
  }

  @Test(
    "A closure that uses 'await' makes an asynchronous transition and receives the event's values")
  func suspends() async throws {
    let machine = StateMachine<Light, Tick, Lamp>(initial: .green) {
      When(state: .green) {
        On(event: .tick) {
          await Task.yield()
          return Transition(to: .amber)
        }
        On(event: Tick.wait) { seconds in
          await Task.yield()
          return Transition(to: .red(seconds: seconds))
        }
        On(event: Tick.repair) { tool, count in
          Guard(predicate: count > 0)
        } transition: { tool, count in
          await Task.yield()
          return Transition(to: .broken("\(tool) \(count)"))
        }
      }
    }
    guard case .suspended(let run) = machine.reduce(.green, .tick) else {
      Issue.record("not suspended")
      return
    }
    #expect(try await run() == .amber)
    #expect(await machine.next(.green, .wait(4)) == .red(seconds: 4))
    let tool = String(repeating: "a long screwdriver ", count: 3)
    #expect(await machine.next(.green, .repair(tool, 2)) == .broken("\(tool) 2"))
    #expect(await machine.next(.green, .repair(tool, 0)) == nil)
    #expect(machine.reduce(.green, .repair(tool, 0)) == .refused(.guard))
  }

  @Test("A transition for several events can have a guard and receives the event")
  func several() {
    let both = OneOf {
      Tick.tick; Tick.wait
    }
    let machine = StateMachine<Light, Tick, Lamp>(initial: .green) {
      When(state: .green) {
        On(events: both) { Transition(to: .amber) }
        On(
          events: OneOf {
            Tick.repair; Tick.smash
          }
        ) { event in
          if case .repair = event { Guard(predicate: true) } else { Guard(predicate: false) }
        } transition: { _ in
          Transition(to: .red(seconds: 1))
        }
      }
    }
    #expect(machine.reduce(.green, .tick) == .next(.amber))
    #expect(machine.reduce(.green, .wait(3)) == .next(.amber))
    #expect(machine.reduce(.green, .repair("x", 1)) == .next(.red(seconds: 1)))
    #expect(machine.reduce(.green, .smash) == .refused(.guard))
    #expect(machine.reduce(.green, .fix) == .refused(.noTransition))
    #expect(machine.alphabet == ["wait", "repair", "tick", "smash"])
  }

  @Test("'if', 'else', 'switch' and 'for' can build machines, outputs and transitions")
  func builders() {
    func make(strict: Bool) -> StateMachine<Light, Tick, Lamp> {
      StateMachine(initial: .green) {
        if strict {
          When(state: .amber) { On(event: .tick) { Transition(to: .green) } }
        }
        When(state: Light.red(seconds:)) { seconds in
          switch seconds {
          case 0: Execute.noOutput
          case 1...3: Execute(output: .blink)
          default: Execute(output: .shine(seconds))
          }
        } transitions: { seconds in
          if seconds > 5 {
            On(event: .tick) { Transition(to: .red(seconds: seconds - 1)) }
          } else {
            On(event: .tick) { Transition(to: .green) }
          }
          if strict {
            On(event: .smash) { Transition(to: .broken("red")) }
          }
        }
        for state in [Light.green, .amber] {
          When(state: state) { On(event: .smash) { Transition(to: .broken("\(state)")) } }
        }
      }
    }
    let strict = make(strict: true)
    let loose = make(strict: false)
    #expect(strict.reduce(.red(seconds: 9), .tick) == .next(.red(seconds: 8)))
    #expect(strict.reduce(.red(seconds: 2), .tick) == .next(.green))
    #expect(strict.reduce(.red(seconds: 2), .smash) == .next(.broken("red")))
    #expect(loose.reduce(.red(seconds: 2), .smash) == .refused(.noTransition))
    #expect(strict.reduce(.amber, .tick) == .next(.green))
    #expect(loose.reduce(.amber, .tick) == .refused(.noTransition))
    #expect(loose.reduce(.amber, .smash) == .next(.broken("amber")))
    #expect(strict.output(.red(seconds: 0)) == nil)
    #expect(strict.output(.red(seconds: 2)) == .blink)
    #expect(strict.output(.red(seconds: 7)) == .shine(7))
  }

  @Test("If a transition exists only for some values of a state, the alphabet contains every event")
  func alphabet() {
    let machine = StateMachine<Light, Tick, Lamp>(initial: .green) {
      When(state: Light.red(seconds:)) { seconds in
        if seconds > 5 {
          On(event: .tick) { Transition(to: .green) }
        }
      }
    }
    #expect(machine.alphabet == machine.events.map(\.name))
  }

  @Test("Two 'When's for one state combine their transitions in order, and use the first output")
  func overlaps() {
    let machine = StateMachine<Light, Tick, Lamp>(initial: .green) {
      When(state: .green) {
        Execute.noOutput
      } transitions: {
        On(event: .tick) { Transition(to: .amber) }
      }
      When(
        states: OneOf {
          Light.green; Light.amber
        }
      ) { _ in
        Execute(output: .blink)
      } transitions: {
        On(event: .tick) { Transition(to: .green) }
        On(event: .smash) { Transition(to: .broken("")) }
      }
      When(state: .amber) {
        Execute(output: .shine(1))
      }
    }
    #expect(machine.reduce(.green, .tick) == .next(.amber))
    #expect(machine.reduce(.green, .smash) == .next(.broken("")))
    #expect(machine.reduce(.amber, .tick) == .next(.green))
    #expect(machine.output(.green) == nil)
    #expect(machine.output(.amber) == .blink)
    #expect(machine.alphabet == ["tick", "smash"])
  }

  @Test("A machine can be evaluated within another machine's transition")
  func nesting() {
    let inner = makeElevator()
    let machine = StateMachine<Light, Tick, Lamp>(initial: .green) {
      When(state: .green) {
        On(event: Tick.wait) { seconds in
          Guard(
            predicate: inner.reduce(.open(persons: seconds), .closeButtonWasPressed)
              != .refused(.guard))
        } transition: { seconds in
          switch inner.reduce(.open(persons: seconds), .personsHaveEntered(persons: 1)) {
          case .next(.open(let persons)): Transition(to: .red(seconds: persons))
          default: Transition(to: .amber)
          }
        }
      }
    }
    #expect(machine.reduce(.green, .wait(4)) == .next(.red(seconds: 5)))
    #expect(machine.reduce(.green, .wait(10)) == .refused(.guard))
  }
}
