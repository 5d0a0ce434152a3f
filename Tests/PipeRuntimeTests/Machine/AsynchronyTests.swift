import PipeRuntime
import Testing

@Suite("Asynchronous transitions before a run")
struct AsynchronyTests {
  @Test("are known by event")
  func mixed() {
    enum Mood: DSLCompatible { case good, bad }
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

  @Test("are known whichever way they are written")
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
