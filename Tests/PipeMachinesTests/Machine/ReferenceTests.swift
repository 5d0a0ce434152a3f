import PipeMachines
import TestSupport
import Testing

/// Computes a step of the elevator with a plain `switch`.
private func reference(_ state: State, _ event: Event) -> Reduction<State> {
  switch (state, event) {
  case (.open(let persons), .personsHaveEntered(let more)): .next(.open(persons: persons + more))
  case (.open(let persons), .closeButtonWasPressed):
    persons < 10 ? .next(.closing(persons: persons)) : .refused(.guard)
  case (.closing, .doorHasLocked): .next(.closed)
  default: .refused(.noTransition)
  }
}

@Suite("The comparison with a plain switch")
struct ReferenceTests {
  @Test(
    "Random events change the elevator's state in the same way as a plain switch", arguments: 1...20
  )
  func elevator(seed: UInt64) {
    var random = Seeded(state: seed)
    let machine = makeElevator()
    var state = machine.initial
    for _ in 0..<500 {
      let event: Event =
        switch Int.random(in: 0..<4, using: &random) {
        case 0, 1: .personsHaveEntered(persons: Int.random(in: 0..<5, using: &random))
        case 2: .closeButtonWasPressed
        default: .doorHasLocked
        }
      let answer = machine.reduce(state, event)
      #expect(answer == reference(state, event), "\(state) on \(event)")
      if case .next(let next) = answer { state = next == .closed ? machine.initial : next }
    }
  }
}
