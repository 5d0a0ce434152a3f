import PipeRuntime
import PipeRuntimeTestKit
import Testing

@Suite("Assertions about migrations")
struct MigrationAssertionTests {
  private enum Door: Machine {
    enum State: MachineState, Equatable { case closed, opened(people: Int) }
    enum Event: MachineEvent, Equatable { case admit }
    static let schema = 2
    static let migrations = [
      Migration(
        from: 1, Renamed("open", to: "opened"), Renamed("persons", to: "people", in: "open")),
      Migration(from: 1, of: .events, Renamed("enter", to: "admit")),
    ]
    static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never> {
      StateMachine(initial: State.closed, reduce: { state, _ in state })
    }
  }

  private func failures(
    _ body: (XCTStateMachine<Door.State, Door.Event, Never>, @escaping (String) -> Void) -> Void
  ) -> [String] {
    var failures: [String] = []
    body(XCTStateMachine(Door.self)) { failures.append($0) }
    return failures
  }

  @Test("'assertMigrates' passes when the stored state and event are migrated as expected")
  func passes() {
    let failures = failures { machine, fail in
      machine
        .assertMigrates(from: #"{"open":{"persons":2}}"#, to: .opened(people: 2), fail: fail)
        .assertMigrates(from: #""closed""#, schema: 2, to: .closed, fail: fail)
        .assertMigrates(from: #""enter""#, toEvent: .admit, fail: fail)
    }
    #expect(failures == [])
  }

  @Test("A failure of 'assertMigrates' shows the expected and the actual value, or the error")
  func fails() {
    let failures = failures { machine, fail in
      machine
        .assertMigrates(from: #"{"open":{"persons":2}}"#, to: .opened(people: 3), fail: fail)
        .assertMigrates(from: #"{"open":{}}"#, to: .closed, fail: fail)
        .assertMigrates(from: #""closed""#, schema: 3, to: .closed, fail: fail)
    }
    #expect(failures.count == 3, "\(failures)")
    #expect(failures.first?.contains("expected: opened(people: 3)") == true, "\(failures)")
    #expect(failures.first?.contains("actual:   opened(people: 2)") == true, "\(failures)")
    #expect(failures.dropFirst().first?.contains("field 'opened.people' is missing") == true)
    #expect(
      failures.last?.contains("has schema version 3, but machine 'Door' has schema version 2")
        == true)
  }

  @Test("'assertMigrates' requires the type of the machine")
  func withoutType() {
    var failures: [String] = []
    XCTStateMachine(Door.stateMachine(NoParameters()))
      .assertMigrates(from: "1", to: .closed, fail: { failures.append($0) })
    #expect(failures.first?.contains("XCTStateMachine(MACHINE.self)") == true, "\(failures)")
  }
}
