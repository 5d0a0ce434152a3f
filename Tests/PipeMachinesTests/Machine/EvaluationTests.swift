import PipeMachines
import Synchronization
import Testing

private enum Shelf: MachineState, Equatable {
  case empty
  case holding(Int)
  case locked
}

private enum Order: MachineEvent {
  case put(Int)
  case take(Int)
  case clear
  case lock
  case weigh
  case paint(colour: String)
  case ship(to: String)
}

private let weighings = Atomic(0)

private func shelf() -> StateMachine<Shelf, Order, Never> {
  StateMachine(initial: Shelf.empty) {
    When(state: Shelf.empty) {
      On(event: Order.put) { Transition(to: .holding($0)) }
      On(event: Order.lock) { Transition(to: .locked) }
    }
    When(state: Shelf.holding) { count in
      On(event: Order.take) {
        Guard(predicate: $0 <= count)
      } transition: {
        Transition(to: .holding(count - $0))
      }
      // Like in a machine that is written imperatively, this transition is found only by running
      // it.
      if count > 2 {
        On(event: Order.clear) { Transition(to: .empty) }
      } else {
        On(event: Order.put) { Transition(to: .holding(count + $0)) }
      }
      for colour in 0..<count where colour > 5 {
        On(event: Order.paint(colour:)) { _ in Transition(to: .holding(colour)) }
      }
      On(event: Order.lock) {
        Guard(predicate: count == 0)
      } transition: {
        Transition(to: .locked)
      }
      On(event: Order.weigh) {
        weighings.add(1, ordering: .relaxed)
        try? await Task.sleep(for: .zero)
        return Transition(to: Shelf.holding(count))
      }
      if count == 1 {
        On(event: Order.ship(to:)) { (_: String) in await later(.empty) }
      } else if count == 2 {
        On(event: Order.ship(to:)) { (_: String) in await later(.empty) }.selfContained()
      } else if count == 3 {
        On(event: Order.ship(to:)) {
          Guard(predicate: $0 == "here")
        } transition: { (_: String) in
          Transition(to: .empty)
        }
        On(event: Order.ship(to:)) { (_: String) in await later(.empty) }
      }
    }
  }
}

private func later(_ shelf: Shelf) async -> Transition<Shelf> { Transition(to: shelf) }

@Suite("The evaluation of events")
struct EvaluationTests {
  private let machine = shelf()

  @Test(
    "An event case is evaluated without values, as far as the result does not depend on values",
    arguments: [
      (.empty, "put", .accepted), (.empty, "take", .refused(.noTransition)),
      (.empty, "clear", .refused(.noTransition)),
      (.empty, "lock", .accepted), (.empty, "paint", .refused(.noTransition)),
      (.holding(1), "take", .dependsOnValues), (.holding(1), "put", .accepted),
      (.holding(1), "clear", .refused(.noTransition)), (.holding(1), "lock", .refused(.guard)),
      (.holding(1), "paint", .refused(.noTransition)), (.holding(1), "weigh", .asynchronous),
      (.holding(3), "put", .refused(.noTransition)), (.holding(3), "clear", .accepted),
      (.holding(0), "lock", .accepted), (.holding(7), "paint", .accepted),
      // An asynchronous transition may throw, so that its event is refused.
      (.holding(1), "ship", .asynchronous), (.holding(2), "ship", .selfContained),
      (.holding(3), "ship", .dependsOnValues),
      (.locked, "put", .refused(.noTransition)), (.locked, "lock", .refused(.noTransition)),
    ] as [(Shelf, String, Evaluation)])
  fileprivate func cases(state: Shelf, name: String, evaluation: Evaluation) {
    #expect(machine.evaluate(caseNamed: name, in: state) == evaluation)
  }

  @Test("The evaluation of an event with values says what a step would do, but runs no transition")
  func values() async {
    #expect(machine.evaluate(.take(2), in: .holding(2)) == .accepted)
    #expect(machine.evaluate(.take(3), in: .holding(2)) == .refused(.guard))
    #expect(machine.evaluate(.take(3), in: .empty) == .refused(.noTransition))
    #expect(machine.evaluate(.weigh, in: .holding(2)) == .asynchronous)
    #expect(machine.evaluate(.ship(to: "there"), in: .holding(2)) == .selfContained)
    #expect(weighings.load(ordering: .relaxed) == 0)
  }

  @Test("An unknown case has no evaluation")
  func unknown() {
    #expect(machine.evaluate(caseNamed: "open", in: .empty) == nil)
  }

  @Test("If an event case has an evaluation without values, every value has the same evaluation")
  func agreement() {
    for state in [Shelf.empty, .holding(0), .holding(1), .holding(3), .holding(7), .locked] {
      for value in 0..<9 {
        for event in [Order.put(value), .take(value), .paint(colour: "\(value)")] {
          let name = EnumCases.name(of: event) ?? ""
          switch machine.evaluate(caseNamed: name, in: state) {
          case .dependsOnValues: continue
          case let sure: #expect(machine.evaluate(event, in: state) == sure, "\(event) in \(state)")
          }
        }
      }
    }
  }

  @Test("A machine that is a function is evaluated only for events with values")
  func functions() {
    let function = StateMachine<Shelf, Order, Never>(
      initial: .empty, reduce: { state, _ in state })
    #expect(function.evaluate(caseNamed: "put", in: .empty) == .dependsOnValues)
    #expect(function.evaluate(caseNamed: "clear", in: .empty) == .refused(.noTransition))
    #expect(function.evaluate(caseNamed: "nothing", in: .empty) == nil)
  }
}
