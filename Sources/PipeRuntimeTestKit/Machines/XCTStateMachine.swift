import PipeRuntime

/// Asserts the behavior of a machine, state by state, without running the machine.
///
/// The assertions can be used in tests of Swift Testing and XCTest. A failure is recorded at the
/// line of the assertion, and the test continues with the next assertion. If you pass a closure as
/// `fail:`, the closure receives the failure instead.
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
  /// Reads values that earlier versions of the machine have stored; `nil` if the machine's type is
  /// not known.
  let storedValues: StoredValues<State, Event>?

  /// Creates assertions about a machine.
  /// - Parameters:
  ///   - coverage: A collector that counts the transitions that the assertions cause.
  ///   - fail: Called with the text of each failure. By default, the test library records the
  ///     failure at the assertion's line.
  public init(
    _ stateMachine: StateMachine<State, Event, Output>,
    coverage: TransitionCoverage<State, Event, Output>? = nil,
    fail: (@Sendable (String) -> Void)? = nil
  ) {
    machine = stateMachine
    self.coverage = coverage
    reporter = fail
    storedValues = nil
  }

  /// Creates assertions about a machine, including assertions about its migrations.
  /// - Parameters:
  ///   - parameters: The parameters of the machine.
  ///   - coverage: A collector that counts the transitions that the assertions cause.
  ///   - fail: Called with the text of each failure. By default, the test library records the
  ///     failure at the assertion's line.
  public init<Hosted: Machine>(
    _ machine: Hosted.Type, parameters: Hosted.Parameters = Hosted.Parameters(),
    coverage: TransitionCoverage<State, Event, Output>? = nil,
    fail: (@Sendable (String) -> Void)? = nil
  ) where Hosted.State == State, Hosted.Event == Event, Hosted.Output == Output {
    self.machine = machine.stateMachine(parameters)
    self.coverage = coverage
    reporter = fail
    storedValues = StoredValues(machine)
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

  /// Returns a failure unless entering `state` executes the output `expected`; `nil` means no
  /// output.
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

  /// Asserts that the event changes each of the states to `next` by an internal transition, which
  /// does not enter `next`.
  @discardableResult
  public func assert(
    when states: State..., on event: Event, staysIn next: State,
    fail: ((String) -> Void)? = nil, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line, column: UInt = #column
  ) -> Self {
    let callSite = AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    for state in states {
      report(
        transitionFailure(state, event, machine.reduce(state, event), next, isInternal: true),
        at: callSite, fail)
    }
    return self
  }

  /// Asserts that the machine ignores the event in each of the states.
  @discardableResult
  public func assertIgnored(
    when states: State..., on event: Event,
    fail: ((String) -> Void)? = nil, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line, column: UInt = #column
  ) -> Self {
    let callSite = AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    for state in states {
      report(ignoredFailure(state, event, machine.reduce(state, event)), at: callSite, fail)
    }
    return self
  }

  /// Asserts that the machine refuses the event in each of the states.
  /// - Parameter refusal: The expected reason; `nil` means any reason.
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

  /// Returns a failure unless the machine answers the event with a transition to `next`.
  /// - Parameter isInternal: Whether the transition must be internal.
  func transitionFailure(
    _ state: State, _ event: Event, _ reduction: Reduction<State>, _ next: State,
    isInternal: Bool = false
  ) -> MachineFailure? {
    let expected = String(describing: next)
    switch reduction {
    case .next(let actual), .stays(let actual):
      coverage?.record(from: state, on: event, isTaken: true)
      if ValueComparison.areEqual(next, actual) {
        let staysInState = if case .stays = reduction { true } else { false }
        if staysInState == isInternal { return nil }
        return failure(
          state, event,
          isInternal ? .entersState(expected: expected) : .entersNoState(expected: expected))
      }
      return failure(
        state, event,
        .wrongState(
          expected: expected, actual: String(describing: actual),
          ValueComparison.differences(expected: next, actual: actual)))
    case .ignored:
      coverage?.record(from: state, on: event, isTaken: true)
      return failure(state, event, .ignored(expected: expected))
    case .refused(let refusal):
      coverage?.record(from: state, on: event, isTaken: false)
      return failure(
        state, event,
        .refused(refusal, expected: expected, acceptedEvents: acceptedEvents(state)))
    case .suspended:
      return failure(state, event, .asynchronous(expected: expected))
    }
  }

  /// Returns a failure unless the machine ignores the event.
  func ignoredFailure(
    _ state: State, _ event: Event, _ reduction: Reduction<State>
  ) -> MachineFailure? {
    switch reduction {
    case .ignored:
      coverage?.record(from: state, on: event, isTaken: true)
      return nil
    case .next(let actual), .stays(let actual):
      coverage?.record(from: state, on: event, isTaken: true)
      return failure(state, event, .notIgnored(actual: String(describing: actual)))
    case .refused(let refusal):
      coverage?.record(from: state, on: event, isTaken: false)
      return failure(
        state, event,
        .refused(
          refusal, expected: "an ignored event", acceptedEvents: acceptedEvents(state)))
    case .suspended: return failure(state, event, .notIgnored(actual: "a state that comes later"))
    }
  }

  /// Returns a failure unless the machine refuses the event for the reason `expected`; `nil` means
  /// any reason.
  func refusalFailure(
    _ state: State, _ event: Event, _ reduction: Reduction<State>, _ expected: Refusal?
  ) -> MachineFailure? {
    switch reduction {
    case .next(let actual), .stays(let actual):
      coverage?.record(from: state, on: event, isTaken: true)
      return failure(state, event, .moved(to: String(describing: actual)))
    case .ignored:
      coverage?.record(from: state, on: event, isTaken: true)
      return failure(state, event, .ignored(expected: "no transition"))
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
  /// Returns the names of the events that a state accepts. Events with a guard are marked
  /// `(guarded)`.
  private func acceptedEvents(_ state: State) -> [String] {
    let guarded = machine.guardedEvents(in: state)
    return machine.events(acceptedIn: state).map { guarded.contains($0) ? "\($0) (guarded)" : $0 }
  }

  /// Reports a failure to the closure of the assertion. Without this closure, reports the failure
  /// to the closure of the initializer. Without either closure, reports the failure to the test
  /// library. Does nothing if `failure` is `nil`.
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

// Assertions about asynchronous transitions.
extension XCTStateMachine {
  /// Asserts that the event moves the machine from each of the states to `next`, and waits for the
  /// asynchronous transition.
  ///
  /// ```swift
  /// await XCTStateMachine(stateMachine)
  ///   .assertEventually(when: .idle, on: .load, transitionTo: .loaded)
  /// ```
  /// - Parameter limit: The maximum time to wait for one transition.
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

  /// Waits for a transition, and returns the machine's answer. Returns `nil` if there is no
  /// progress for `limit`.
  func awaitReduction(
    _ state: State, _ event: Event, within limit: Duration
  ) async -> Reduction<State>? {
    let reduction = machine.reduce(state, event)
    guard case .suspended(let transition) = reduction else { return reduction }
    return (try? await withStallLimit(limit) { await Self.end(of: transition) })?.value
  }

  private static func end(of transition: SuspendedTransition<State>) async -> Reduction<State> {
    do {
      let target = try await transition.target()
      return target.isInternal ? .stays(target.state) : .next(target.state)
    } catch {
      return .refused(.thrown(by: error))
    }
  }

  func timeoutFailure(
    _ state: State, _ event: Event, _ next: State?, _ limit: Duration
  ) -> MachineFailure {
    let expected = next.map { String(describing: $0) } ?? "no transition"
    return failure(state, event, .timedOut(expected: expected, limit))
  }
}
