import PipeRuntime
import Testing

/// The elevator as a plain `switch`.
private func reference(_ state: State, _ event: Event) -> Reduction<State> {
  switch (state, event) {
  case (.open(let persons), .personsHaveEntered(let more)): .next(.open(persons: persons + more))
  case (.open(let persons), .closeButtonWasPressed):
    persons < 10 ? .next(.closing(persons: persons)) : .refused(.guard)
  case (.closing, .doorHasLocked): .next(.closed)
  default: .refused(.noTransition)
  }
}

/// A small generator of the same numbers for the same seed.
private struct Seeded: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}

@Suite("Against a plain reference")
struct ReferenceTests {
  @Test("random events lead the elevator where a switch leads it", arguments: 1...20)
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
