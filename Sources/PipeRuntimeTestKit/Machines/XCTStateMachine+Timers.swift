import PipeRuntime

// Timers of states.
extension XCTStateMachine {
  /// Asserts that in each of `states`, the first timer to expire has this duration and moves the
  /// machine to `next`. Does not wait for the timer.
  ///
  /// ```swift
  /// XCTStateMachine(stateMachine)
  ///   .assert(when: .requested, after: .seconds(30), transitionTo: .expired)
  /// ```
  @discardableResult
  public func assert(
    when states: State..., after duration: Duration, transitionTo next: State,
    fail: ((String) -> Void)? = nil, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line, column: UInt = #column
  ) -> Self {
    let callSite = AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    for state in states { report(timerFailure(state, duration, next), at: callSite, fail) }
    return self
  }

  /// Asserts that none of `states` has a timer.
  @discardableResult
  public func assertNoTimer(
    when states: State..., fail: ((String) -> Void)? = nil, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    let callSite = AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    for state in states { report(noTimerFailure(state), at: callSite, fail) }
    return self
  }

  /// Returns a failure unless the first timer to expire has this duration and moves the machine to
  /// `next`.
  func timerFailure(_ state: State, _ duration: Duration, _ next: State) -> MachineFailure? {
    func failure(_ actual: String) -> MachineFailure {
      self.failure(state, nil, .wrongTimer(expected: "after \(duration.shortText)", actual: actual))
    }
    let timers: [StateTimer]
    do { timers = try machine.timers(in: state) } catch { return failure("\(error)") }
    guard let timer = timers.first else { return failure("no timer") }
    guard timer.duration == duration else { return failure(timer.cause) }
    guard let reduction = machine.fire(timer.index, in: state) else { return failure("no timer") }
    guard case .next(let actual) = reduction else {
      return failure("the transition is refused")
    }
    coverage?.recordTimer(in: state)
    if ValueComparison.areEqual(next, actual) { return nil }
    return self.failure(
      state, nil,
      .wrongState(
        expected: String(describing: next), actual: String(describing: actual),
        ValueComparison.differences(expected: next, actual: actual)))
  }

  private func noTimerFailure(_ state: State) -> MachineFailure? {
    do {
      guard let timer = try machine.timers(in: state).first else { return nil }
      return failure(state, nil, .wrongTimer(expected: "no timer", actual: timer.cause))
    } catch {
      return failure(state, nil, .wrongTimer(expected: "no timer", actual: "\(error)"))
    }
  }
}
