import PipeRuntime

// Scenarios: lists of events with their expected outcomes.
extension XCTStateMachine {
  /// A step of a scenario for this machine.
  public typealias Step = ScenarioStep<State, Event, Output>

  /// Asserts how the machine responds to a list of events, one after another.
  ///
  /// The first failing step is recorded at its own line, together with the whole scenario.
  ///
  /// ```swift
  /// XCTStateMachine(stateMachine).assert(steps: [
  ///   .on(.personsHaveEntered(persons: 3), to: .open(persons: 3)),
  ///   .on(.closeButtonWasPressed, to: .closing(persons: 3), execute: .close(speed: 2)),
  ///   .refuses(.closeButtonWasPressed),
  ///   .on(.doorHasLocked, to: .closed),
  /// ])
  /// ```
  /// - Parameter state: The state before the first event; `nil` for the initial one.
  @discardableResult
  public func assert(from state: State? = nil, steps: [Step]) -> Self {
    var scenario = Scenario(start: state ?? machine.initial, steps: steps)
    for step in steps {
      let reduction = machine.reduce(scenario.state, step.event)
      if let failure = failure(of: step, in: scenario.state, reduction) {
        report(scenario.text(failure), at: step.callSite)
        break
      }
      scenario.advance(step)
    }
    return self
  }

  /// Asserts how a machine with asynchronous transitions responds to a list of events, one after
  /// another.
  /// - Parameters:
  ///   - state: The state before the first event; `nil` for the initial one.
  ///   - limit: The longest wait for one transition.
  @discardableResult
  public func assertEventually(
    from state: State? = nil, steps: [Step], within limit: Duration = .seconds(10)
  ) async -> Self {
    var scenario = Scenario(start: state ?? machine.initial, steps: steps)
    for step in steps {
      let reduction = await awaitReduction(scenario.state, step.event, within: limit)
      let found =
        if let reduction { failure(of: step, in: scenario.state, reduction) } else {
          timeoutFailure(scenario.state, step.event, step.next, limit)
        }
      if let found {
        report(scenario.text(found), at: step.callSite)
        break
      }
      scenario.advance(step)
    }
    return self
  }

  private func failure(
    of step: Step, in state: State, _ reduction: Reduction<State>
  ) -> MachineFailure? {
    switch step.expectation {
    case .moves(let next): transitionFailure(state, step.event, reduction, next)
    case .movesExecuting(let next, let output):
      transitionFailure(state, step.event, reduction, next)
        ?? outputFailure(next, expected: output)
    case .refuses(let refusal): refusalFailure(state, step.event, reduction, refusal)
    }
  }
}

/// The progress of a scenario.
private struct Scenario<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible> {
  typealias Step = ScenarioStep<State, Event, Output>

  let start: State
  let steps: [Step]
  private(set) var state: State
  private(set) var completedSteps = 0

  init(start: State, steps: [Step]) {
    self.start = start
    self.steps = steps
    state = start
  }

  mutating func advance(_ step: Step) {
    if let next = step.next { state = next }
    completedSteps += 1
  }

  /// Describes a failure of the next step, with the steps of the scenario.
  func text(_ failure: MachineFailure) -> String {
    var lines = ["step \(completedSteps + 1) of \(steps.count): " + failure.text]
    lines.append("  the scenario, from \(start):")
    let events = steps.map { String(describing: $0.event) }
    let width = events.map(\.count).max() ?? 0
    for (index, step) in steps.enumerated() {
      let marker = index < completedSteps ? " " : index == completedSteps ? ">" : "-"
      let space = String(repeating: " ", count: max(0, width - events[index].count))
      lines.append("    \(marker) \(index + 1). \(events[index])\(space) \(step.outcome)")
    }
    return lines.joined(separator: "\n")
  }
}

/// One event of a scenario, with its expected outcome.
public struct ScenarioStep<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
>: Sendable {
  enum Expectation: Sendable {
    case moves(to: State)
    case movesExecuting(to: State, output: Output)
    case refuses(Refusal?)
  }

  let event: Event
  let expectation: Expectation
  let callSite: AssertionLocation

  /// Expects that the event moves the machine to this state.
  public static func on(
    _ event: Event, to state: State, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      event: event, expectation: .moves(to: state),
      callSite: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// Expects that the event moves the machine to this state, and that entering it executes this
  /// output.
  public static func on(
    _ event: Event, to state: State, execute output: Output, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      event: event, expectation: .movesExecuting(to: state, output: output),
      callSite: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// Expects that the machine refuses the event.
  /// - Parameter refusal: The expected reason; `nil` for any reason.
  public static func refuses(
    _ event: Event, because refusal: Refusal? = nil, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      event: event, expectation: .refuses(refusal),
      callSite: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }
}

extension ScenarioStep {
  /// The next state that the step expects; `nil` if it expects a refusal.
  var next: State? {
    switch expectation {
    case .moves(let next), .movesExecuting(let next, _): next
    case .refuses: nil
    }
  }

  /// A readable description of the expected outcome.
  var outcome: String {
    switch expectation {
    case .moves(let next): "-> \(next)"
    case .movesExecuting(let next, let output): "-> \(next), executing \(output)"
    case .refuses(nil): "is refused"
    case .refuses(.noTransition?): "is refused: no transition"
    case .refuses(.guard?): "is refused by a guard"
    case .refuses(.thrown(let error)?): "is refused: its function throws '\(error)'"
    case .refuses(.asynchronous?): "is refused: its transition is asynchronous"
    case .refuses(.timedOut?): "is refused: its transition exceeds the time limit"
    case .refuses(.stateTooLarge?): "is refused: its state exceeds 1 MiB as JSON"
    case .refuses(.ended?): "is refused: the instance has ended in a final state"
    }
  }
}
