import PipeRuntime

/// Asserts the behaviour of a machine, state by state and without running it.
///
/// It works in tests of Swift Testing and of XCTest. A failure is recorded at the assertion's line,
/// and the following assertions still run. With `fail:`, the caller's own reporter receives it
/// instead.
///
/// ```swift
/// XCTStateMachine(stateMachine)
///   .assertNoOutput(when: .open(persons: 0))
///   .assert(
///     when: .open(persons: 0),
///     on: .personsHaveEntered(persons: 1),
///     transitionTo: .open(persons: 1)
///   )
/// ```
public struct XCTStateMachine<
  State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible
>: Sendable {
  let machine: StateMachine<State, Event, Output>
  let coverage: TransitionCoverage<State, Event, Output>?
  let reporter: (@Sendable (String) -> Void)?

  /// Creates assertions about a machine.
  /// - Parameters:
  ///   - coverage: Counts every transition that the assertions take.
  ///   - fail: Receives the text of each failure, in place of the test library. Default: the failure is
  ///     recorded at the assertion's line.
  public init(
    _ stateMachine: StateMachine<State, Event, Output>,
    coverage: TransitionCoverage<State, Event, Output>? = nil,
    fail: (@Sendable (String) -> Void)? = nil
  ) {
    machine = stateMachine
    self.coverage = coverage
    reporter = fail
  }
}

// Outputs.
extension XCTStateMachine {
  /// Asserts that the machine executes no output when it enters any of the states.
  @discardableResult
  public func assertNoOutput(
    when states: State..., fail: ((String) -> Void)? = nil, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    let callSite = AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    for state in states { report(outputFailure(state, expected: nil), at: callSite, fail) }
    return self
  }

  /// Asserts that the machine executes `output` when it enters any of the states.
  @discardableResult
  public func assert(
    when states: State..., execute output: Output, fail: ((String) -> Void)? = nil,
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) -> Self {
    let callSite = AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    for state in states { report(outputFailure(state, expected: output), at: callSite, fail) }
    return self
  }

  /// Returns a failure if the output of the state is not `expected`. If `expected` is `nil`, the
  /// state should have no output.
  func outputFailure(_ state: State, expected: Output?) -> MachineFailure? {
    switch (expected, machine.output(state)) {
    case (nil, nil): return nil
    case (let expected?, nil):
      return failure(state, nil, .noOutput(expected: String(describing: expected)))
    case (nil, let actual?):
      return failure(state, nil, .unexpectedOutput(String(describing: actual)))
    case (let expected?, let actual?):
      if ValueComparison.areEqual(expected, actual) { return nil }
      return failure(
        state, nil,
        .wrongOutput(
          expected: String(describing: expected), actual: String(describing: actual),
          ValueComparison.differences(expected: expected, actual: actual)))
    }
  }
}

// Transitions.
extension XCTStateMachine {
  /// Asserts that the event moves the machine from each of the states to `next`.
  @discardableResult
  public func assert(
    when states: State..., on event: Event, transitionTo next: State,
    fail: ((String) -> Void)? = nil, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line, column: UInt = #column
  ) -> Self {
    let callSite = AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    for state in states {
      report(
        transitionFailure(state, event, machine.reduce(state, event), next), at: callSite, fail)
    }
    return self
  }

  /// Asserts that the machine refuses the event in each of the states.
  /// - Parameter refusal: The expected reason; `nil` for any reason.
  @discardableResult
  public func assertNoTransition(
    when states: State..., on event: Event, because refusal: Refusal? = nil,
    fail: ((String) -> Void)? = nil, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) -> Self {
    let callSite = AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    for state in states {
      report(
        refusalFailure(state, event, machine.reduce(state, event), refusal), at: callSite, fail)
    }
    return self
  }

  /// Returns a failure unless the machine's answer to the event is a transition to `next`.
  func transitionFailure(
    _ state: State, _ event: Event, _ reduction: Reduction<State>, _ next: State
  ) -> MachineFailure? {
    let expected = String(describing: next)
    switch reduction {
    case .next(let actual):
      coverage?.record(from: state, on: event, isTaken: true)
      if ValueComparison.areEqual(next, actual) { return nil }
      return failure(
        state, event,
        .wrongState(
          expected: expected, actual: String(describing: actual),
          ValueComparison.differences(expected: next, actual: actual)))
    case .refused(let refusal):
      coverage?.record(from: state, on: event, isTaken: false)
      return failure(
        state, event,
        .refused(refusal, expected: expected, acceptedEvents: acceptedEvents(state)))
    case .suspended:
      return failure(state, event, .asynchronous(expected: expected))
    }
  }

  /// Returns a failure unless the machine has refused the event for the expected reason. If
  /// `expected` is `nil`, any reason is accepted.
  func refusalFailure(
    _ state: State, _ event: Event, _ reduction: Reduction<State>, _ expected: Refusal?
  ) -> MachineFailure? {
    switch reduction {
    case .next(let actual):
      coverage?.record(from: state, on: event, isTaken: true)
      return failure(state, event, .moved(to: String(describing: actual)))
    case .refused(let actual):
      coverage?.record(from: state, on: event, isTaken: false)
      guard let expected, expected != actual else { return nil }
      return failure(
        state, event,
        .wrongRefusal(
          expected: expected, actual: actual, acceptedEvents: acceptedEvents(state)))
    case .suspended:
      return failure(state, event, .movesAsynchronously)
    }
  }
}

extension XCTStateMachine {
  /// Returns the events that the state accepts, in readable form.
  private func acceptedEvents(_ state: State) -> [String] {
    let guarded = machine.guardedEvents(in: state)
    return machine.events(acceptedIn: state).map { guarded.contains($0) ? "\($0) (guarded)" : $0 }
  }

  /// Reports a failure, if there is one, to the assertion's reporter, the common reporter, or the
  /// test library.
  func report(
    _ failure: MachineFailure?, at callSite: AssertionLocation,
    _ reporter: ((String) -> Void)? = nil
  ) {
    if let failure { report(failure.text, at: callSite, reporter) }
  }

  func report(_ text: String, at callSite: AssertionLocation, _ reporter: ((String) -> Void)? = nil)
  {
    if let reporter = reporter ?? self.reporter {
      reporter(text)
    } else {
      FailureReporter.fail(text, at: callSite)
    }
  }

  func failure(
    _ state: State, _ event: Event?, _ cause: MachineFailure.Cause
  ) -> MachineFailure {
    MachineFailure(
      state: String(describing: state), stateName: EnumCases.name(of: state) ?? "",
      event: event.map { String(describing: $0) },
      eventName: event.flatMap { EnumCases.name(of: $0) } ?? "", cause: cause)
  }
}

// Transitions that suspend.
extension XCTStateMachine {
  /// Asserts that the event moves the machine from each of the states to `next`, and waits for the
  /// asynchronous transition.
  ///
  /// ```swift
  /// await XCTStateMachine(stateMachine)
  ///   .assertEventually(when: .idle, on: .load, transitionTo: .loaded)
  /// ```
  /// - Parameter limit: The longest wait for one transition.
  @discardableResult
  public func assertEventually(
    when states: State..., on event: Event, transitionTo next: State,
    within limit: Duration = .seconds(10), fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) async -> Self {
    let callSite = AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    for state in states {
      if let reduction = await awaitReduction(state, event, within: limit) {
        report(transitionFailure(state, event, reduction, next), at: callSite)
      } else {
        report(timeoutFailure(state, event, next, limit), at: callSite)
      }
    }
    return self
  }

  /// Returns the machine's answer after the transition has returned or thrown; `nil` if the
  /// transition makes no progress for `limit`.
  func awaitReduction(
    _ state: State, _ event: Event, within limit: Duration
  ) async -> Reduction<State>? {
    let reduction = machine.reduce(state, event)
    guard case .suspended(let transition) = reduction else { return reduction }
    return (try? await withStallLimit(limit) { await Self.end(of: transition) })?.value
  }

  private static func end(of transition: SuspendedTransition<State>) async -> Reduction<State> {
    do { return .next(try await transition()) } catch { return .refused(.thrown(by: error)) }
  }

  func timeoutFailure(
    _ state: State, _ event: Event, _ next: State?, _ limit: Duration
  ) -> MachineFailure {
    let expected = next.map { String(describing: $0) } ?? "no transition"
    return failure(state, event, .timedOut(expected: expected, limit))
  }
}
