import PipeRuntime

// Transitions that suspend.
extension XCTStateMachine {
  /// Asserts that any of the states leads to `next` on the event, once its transition has returned.
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
    let place = SourcePlace(fileID: fileID, filePath: filePath, line: line, column: column)
    for state in states {
      if let reduction = await awaitReduction(state, event, within: limit) {
        report(transitionFailure(state, event, reduction, next), at: place)
      } else {
        report(lateFailure(state, event, next, limit), at: place)
      }
    }
    return self
  }

  /// The machine's answer, once the transition has returned or thrown; `nil` if it has stalled before.
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

  func lateFailure(
    _ state: State, _ event: Event, _ next: State?, _ limit: Duration
  ) -> MachineFailure {
    let expected = next.map { String(describing: $0) } ?? "no transition"
    return failure(state, event, .timedOut(expected: expected, limit))
  }
}
