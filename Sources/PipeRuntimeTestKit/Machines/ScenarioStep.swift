import PipeRuntime

/// One event of a scenario, and what the machine does on it.
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
  let place: SourcePlace

  /// The event leads to this state.
  public static func on(
    _ event: Event, to state: State, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      event: event, expectation: .moves(to: state),
      place: SourcePlace(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// The event leads to this state, entering which executes this output.
  public static func on(
    _ event: Event, to state: State, execute output: Output, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      event: event, expectation: .movesExecuting(to: state, output: output),
      place: SourcePlace(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// The event is not taken.
  /// - Parameter refusal: Why it is not; `nil` for either reason.
  public static func refuses(
    _ event: Event, because refusal: Refusal? = nil, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) -> Self {
    Self(
      event: event, expectation: .refuses(refusal),
      place: SourcePlace(fileID: fileID, filePath: filePath, line: line, column: column))
  }
}

extension ScenarioStep {
  /// The state that the step leads to; `nil` where the event is refused.
  var next: State? {
    switch expectation {
    case .moves(let next), .movesExecuting(let next, _): next
    case .refuses: nil
    }
  }

  /// What is expected, for a person to read.
  var outcome: String {
    switch expectation {
    case .moves(let next): "-> \(next)"
    case .movesExecuting(let next, let output): "-> \(next), executing \(output)"
    case .refuses(nil): "is refused"
    case .refuses(.noTransition?): "is refused: no transition"
    case .refuses(.guard?): "is refused by a guard"
    case .refuses(.thrown(let error)?): "is refused: its function throws '\(error)'"
    case .refuses(.asynchronous?): "is refused: its transition is asynchronous"
    case .refuses(.overdue?): "is refused: its transition took longer than it may"
    case .refuses(.stateTooLarge?): "is refused: its state would be larger than 1 MiB as JSON"
    }
  }
}
