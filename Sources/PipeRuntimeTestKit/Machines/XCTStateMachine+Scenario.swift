import PipeRuntime

// Scenarios: lists of events with their expected outcomes.
extension XCTStateMachine {
  /// A step of a scenario for this machine.
  public typealias Step = ScenarioStep<State, Event, Output>

  /// Asserts how the machine responds to a sequence of events.
  ///
  /// If a step fails, the failure is recorded at the line of this step, together with the whole
  /// scenario. The later steps do not run.
  ///
  /// ```swift
  /// XCTStateMachine(stateMachine).assert(steps: [
  ///   .on(.personsHaveEntered(persons: 3), to: .open(persons: 3)),
  ///   .on(.closeButtonWasPressed, to: .closing(persons: 3), execute: .close(speed: 2)),
  ///   .refuses(.closeButtonWasPressed),
  ///   .on(.doorHasLocked, to: .closed),
  /// ])
  /// ```
  /// - Parameter state: The state before the first event; `nil` means the initial state.
  @discardableResult
  public func assert(from state: State? = nil, steps: [Step]) -> Self {
    var scenario = Scenario(start: state ?? machine.initial, steps: steps)
    for step in steps {
      let found =
        switch step.trigger {
        case .event(let event):
          failure(of: step, event, in: scenario.state, machine.reduce(scenario.state, event))
        case .timer(let duration): failure(of: step, after: duration, in: scenario.state)
        }
      if let found {
        report(scenario.text(found), at: step.callSite)
        break
      }
      scenario.advance(step)
    }
    return self
  }

  /// Asserts how a machine responds to a sequence of events, and waits for asynchronous
  /// transitions.
  /// - Parameters:
  ///   - state: The state before the first event; `nil` means the initial state.
  ///   - limit: The maximum time to wait for one transition.
  @discardableResult
  public func assertEventually(
    from state: State? = nil, steps: [Step], within limit: Duration = .seconds(10)
  ) async -> Self {
    var scenario = Scenario(start: state ?? machine.initial, steps: steps)
    for step in steps {
      var found: MachineFailure?
      switch step.trigger {
      case .event(let event):
        found =
          if let reduction = await awaitReduction(scenario.state, event, within: limit) {
            failure(of: step, event, in: scenario.state, reduction)
          } else {
            timeoutFailure(scenario.state, event, step.nextState, limit)
          }
      case .timer(let duration): found = failure(of: step, after: duration, in: scenario.state)
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
    of step: Step, _ event: Event, in state: State, _ reduction: Reduction<State>
  ) -> MachineFailure? {
    switch step.expectation {
    case .moves(let next): transitionFailure(state, event, reduction, next)
    case .stays(let next): transitionFailure(state, event, reduction, next, isInternal: true)
    case .ignores: ignoredFailure(state, event, reduction)
    case .movesExecuting(let next, let output):
      transitionFailure(state, event, reduction, next) ?? outputFailure(next, expected: output)
    case .refuses(let refusal): refusalFailure(state, event, reduction, refusal)
    }
  }

  private func failure(
    of step: Step, after duration: Duration, in state: State
  ) -> MachineFailure? {
    switch step.expectation {
    case .moves(let next): timerFailure(state, duration, next)
    case .movesExecuting(let next, let output):
      timerFailure(state, duration, next) ?? outputFailure(next, expected: output)
    case .stays, .ignores, .refuses: nil
    }
  }
}

/// The progress of a scenario.
private struct Scenario<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible> {
  typealias Step = ScenarioStep<State, Event, Output>

  let startState: State
  let steps: [Step]
  private(set) var state: State
  private(set) var completedSteps = 0

  init(start: State, steps: [Step]) {
    self.startState = start
    self.steps = steps
    state = start
  }

  mutating func advance(_ step: Step) {
    if let next = step.nextState { state = next }
    completedSteps += 1
  }

  /// Returns the text for a failure of the next step, with all steps of the scenario.
  func text(_ failure: MachineFailure) -> String {
    var lines = ["step \(completedSteps + 1) of \(steps.count): " + failure.text]
    lines.append("  the scenario, from \(startState):")
    let events = steps.map(\.trigger.description)
    let width = events.map(\.count).max() ?? 0
    for (index, step) in steps.enumerated() {
      let marker = index < completedSteps ? " " : index == completedSteps ? ">" : "-"
      let space = String(repeating: " ", count: max(0, width - events[index].count))
      lines.append("    \(marker) \(index + 1). \(events[index])\(space) \(step.outcomeText)")
    }
    return lines.joined(separator: "\n")
  }
}

/// A step of a scenario: an event or a timer, and its expected outcome.
public struct ScenarioStep<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
>: Sendable {
  enum Expectation: Sendable {
    case moves(to: State)
    case stays(in: State)
    case ignores
    case movesExecuting(to: State, output: Output)
    case refuses(Refusal?)
  }

  enum Trigger: Sendable, CustomStringConvertible {
    case event(Event)
    case timer(Duration)

    var description: String {
      switch self {
      case .event(let event): String(describing: event)
      case .timer(let duration): "after \(duration.shortText)"
      }
    }
  }

  let trigger: Trigger
  let expectation: Expectation
  let callSite: AssertionLocation

  /// Expects that the machine accepts the event and enters `state`.
  public static func on(
    _ event: Event, to state: State, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      trigger: .event(event), expectation: .moves(to: state),
      callSite: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// Expects that the machine accepts the event, enters `state`, and executes `output` on entering
  /// this state.
  public static func on(
    _ event: Event, to state: State, execute output: Output, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      trigger: .event(event), expectation: .movesExecuting(to: state, output: output),
      callSite: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// Expects that the first timer to expire has this duration and moves the machine to `state`.
  public static func after(
    _ duration: Duration, to state: State, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      trigger: .timer(duration), expectation: .moves(to: state),
      callSite: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// Expects that the first timer to expire has this duration and moves the machine to `state`.
  /// Also expects that the machine executes `output` on entering this state.
  public static func after(
    _ duration: Duration, to state: State, execute output: Output, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      trigger: .timer(duration), expectation: .movesExecuting(to: state, output: output),
      callSite: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// Expects that the event causes an internal transition: the machine's state becomes `state`, but
  /// the machine does not enter this state.
  public static func on(
    _ event: Event, staysIn state: State, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      trigger: .event(event), expectation: .stays(in: state),
      callSite: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// Expects that the machine ignores the event.
  public static func ignores(
    _ event: Event, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      trigger: .event(event), expectation: .ignores,
      callSite: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// Expects that the machine refuses the event.
  /// - Parameter refusal: The expected reason; `nil` means any reason.
  public static func refuses(
    _ event: Event, because refusal: Refusal? = nil, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      trigger: .event(event), expectation: .refuses(refusal),
      callSite: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }
}

extension ScenarioStep {
  /// The expected state after the step; `nil` if the state should not change.
  var nextState: State? {
    switch expectation {
    case .moves(let next), .movesExecuting(let next, _), .stays(let next): next
    case .refuses, .ignores: nil
    }
  }

  /// A readable description of the expected outcome.
  var outcomeText: String {
    switch expectation {
    case .moves(let next): "-> \(next)"
    case .stays(let next): "-> \(next), without an entry"
    case .ignores: "is ignored"
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
