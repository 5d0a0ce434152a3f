import PipeMachines
import Testing

@Suite("Descriptions of asynchronous transitions")
struct AsynchronyTests {
  @Test("A machine lists the events of its asynchronous transitions before it runs")
  func mixed() {
    enum Word: DSLCompatible { case praise, blame, joke }
    let machine = StateMachine<Mood, Word, Never>(initial: Mood.good) {
      When(state: Mood.good) {
        On(event: Word.praise) { Transition(to: Mood.good) }
        On(event: Word.blame) {
          await Task.yield()
          return Transition(to: Mood.bad)
        }
        On(event: Word.joke) { Transition(to: Mood.good) }
      }
      When(state: Mood.bad) {
        On(event: Word.joke) {
          await Task.yield()
          return Transition(to: Mood.good)
        }
      }
    }
    #expect(machine.asynchronousEvents == ["blame": .all, "joke": .some])
  }

  private enum Mood: DSLCompatible { case good, bad }
  private enum Word: DSLCompatible { case praise, blame, joke(Int) }

  private static let contained = StateMachine<Mood, Word, Never>(initial: Mood.good) {
    When(state: Mood.good) {
      On(event: Word.praise) { await Self.soon(.good) }
        .selfContained(within: .milliseconds(200))
      On(event: Word.blame) { await Self.soon(.bad) }
        .selfContained()
      On(event: Word.joke) { (number: Int) in
        Guard(predicate: number > 0)
      } transition: { (_: Int) in
        await Self.soon(.good)
      }
      .selfContained(within: .seconds(3))
    }
    When(state: Mood.bad) {
      On(event: Word.blame) { await Self.soon(.bad) }
      On(event: Word.joke) { (_: Int) in await Self.soon(.good) }
        .selfContained()
    }
  }

  private static func soon(_ mood: Mood) async -> Transition<Mood> {
    await Task.yield()
    return Transition(to: mood)
  }

  @Test("A machine lists its self-contained asynchronous transitions with their time limits")
  func limits() {
    let machine = Self.contained
    #expect(machine.asynchronousEvents == ["blame": .some])
    #expect(
      machine.timeLimitsByEvent
        == ["praise": .milliseconds(200), "blame": .seconds(1), "joke": .seconds(3)])
    func limit(_ state: Mood, _ word: Word) -> Duration? {
      if case .suspended(let transition) = machine.reduce(state, word) {
        transition.limit
      } else {
        nil
      }
    }
    #expect(limit(.good, .praise) == .milliseconds(200))
    #expect(limit(.good, .blame) == .seconds(1))
    #expect(limit(.bad, .blame) == nil)
    #expect(limit(.good, .joke(1)) == .seconds(3))
    #expect(limit(.bad, .joke(0)) == .seconds(1))
    #expect(machine.reduce(.good, .joke(0)) == .refused(.guard))
    #expect(machine.evaluate(.praise, in: .good) == .selfContained)
    #expect(machine.evaluate(.blame, in: .bad) == .asynchronous)
  }

  @Test("A machine lists self-contained transitions that have several events or a name")
  func kept() {
    let sulk = On<Mood, Word>(events: OneOf { Word.blame }) { await Self.soon(.bad) }
      .selfContained(within: .seconds(4))
    let machine = StateMachine<Mood, Word, Never>(initial: Mood.good) {
      When(state: Mood.good) {
        On(events: OneOf { Word.praise }) { await Self.soon(.good) }
        On(
          events: OneOf {
            Word.praise
            Word.joke
          }
        ) { await Self.soon(.good) }
        .selfContained(within: .seconds(2))
        sulk
      }
    }
    func limit(_ word: Word) -> Duration? {
      guard case .suspended(let transition) = machine.reduce(.good, word) else { return nil }
      return transition.limit
    }
    // The first transition that matches counts.
    #expect(limit(.praise) == nil)
    #expect(limit(.joke(1)) == .seconds(2))
    #expect(limit(.blame) == .seconds(4))
    #expect(machine.asynchronousEvents == ["praise": .some])
  }

  @Test("A machine that is a function declares by event which transitions are self-contained")
  func function() {
    let some = SelfContainedEvents<Word>.events(OneOf { Word.joke }, within: .seconds(2))
      .and(OneOf { Word.praise })
    let machine = StateMachine<Mood, Word, Never>(
      initial: .good, awaiting: { mood, _ in mood }, selfContained: some)
    #expect(machine.asynchronousEvents == ["blame": .all])
    #expect(machine.timeLimitsByEvent == ["joke": .seconds(2), "praise": .seconds(1)])
    #expect(machine.evaluate(caseNamed: "joke", in: .good) == .selfContained)
    #expect(machine.evaluate(caseNamed: "blame", in: .good) == .asynchronous)
    let all = StateMachine<Mood, Word, Never>(
      initial: .good, awaiting: { mood, _ in mood }, selfContained: .all(within: .seconds(5)))
    #expect(all.asynchronousEvents == [:])
    #expect(all.timeLimitsByEvent.count == 3)
  }

  @Test("An asynchronous transition that throws refuses its event, and the machine keeps its state")
  func throwing() async throws {
    struct Grudge: Error {}
    let machine = StateMachine<Mood, Word, Never>(initial: Mood.good) {
      When(state: Mood.good) {
        On(event: Word.blame) {
          await Task.yield()
          throw Grudge()
        }
        On(event: Word.praise) { Transition(to: Mood.bad) }
      }
    }
    #expect(await machine.next(.good, .blame) == nil)
    let run = AsyncStateMachineSequence(stateMachine: machine, runtime: Runtime())
    #expect(await run.send(.blame) == .refused(.thrown("Grudge()")))
    #expect(run.state == .good)
    #expect(await run.send(.praise) == .accepted(.bad))
  }

  private enum State: DSLCompatible { case only }

  private enum Event: DSLCompatible {
    case plain, plainWithEvent, guarded, guardedWithEvent
    case one(Int), oneGuarded(Int), two(Int, String), twoGuarded(Int, String)
    case several, others, severalWithEvent
  }

  private static func same() async -> Transition<State> {
    await Task.yield()
    return Transition(to: State.only)
  }

  @Test("Asynchronous transitions are recognized in every form")
  func everyForm() {
    let machine = StateMachine<State, Event, Never>(initial: State.only) {
      When(state: State.only) {
        On(event: Event.plain) { await Self.same() }
        On(event: Event.plainWithEvent) { (_: Event) in await Self.same() }
        On(event: Event.guarded, guard: { Guard(predicate: true) }) { await Self.same() }
        On(event: Event.guardedWithEvent, guard: { (_: Event) in Guard(predicate: true) }) {
          (_: Event) in await Self.same()
        }
        On(event: Event.one) { (_: Int) in await Self.same() }
        On(event: Event.oneGuarded, guard: { (_: Int) in Guard(predicate: true) }) {
          (_: Int) in await Self.same()
        }
        On(event: Event.two) { (_: Int, _: String) in await Self.same() }
        On(event: Event.twoGuarded, guard: { (_: Int, _: String) in Guard(predicate: true) }) {
          (_: Int, _: String) in await Self.same()
        }
        On(
          events: OneOf {
            Event.several; Event.others
          }
        ) { await Self.same() }
        On(events: OneOf { Event.severalWithEvent }) { (_: Event) in await Self.same() }
      }
    }
    let all = Dictionary(uniqueKeysWithValues: machine.alphabet.map { ($0, "all") })
    #expect(machine.asynchronousEvents.mapValues { "\($0)" } == all)
  }
}
