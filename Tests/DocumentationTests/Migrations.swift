import PipeRuntime
import PipeRuntimeTestKit
import Testing

private enum Door: Machine {
  enum State: MachineState, Equatable { case closed, opened(persons: Int) }
  enum Event: MachineEvent { case close }

  // docs: begin
  static let schema = 2
  static let migrations = [Migration(from: 1, Renamed("open", to: "opened"))]
  // docs: end

  static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.closed) {
      When(state: State.opened(persons:)) { _ in
        Execute.noOutput
      } transitions: { _ in
        On(event: Event.close) { Transition(to: State.closed) }
      }
    }
  }
}

@Suite("Documented migrations")
struct MigrationsTests {
  @Test("A documented migration renames a state")
  func renamed() {
    // docs: begin
    XCTStateMachine(Door.self)
      .assertMigrates(from: #"{"open":{"persons":2}}"#, to: .opened(persons: 2))
    // docs: end
  }
}
