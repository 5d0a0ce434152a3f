import PipeRuntime

/// Reads states and events that earlier versions of a machine have stored.
struct StoredValues<State: DSLCompatible, Event: DSLCompatible>: Sendable {
  /// The current schema version of the machine.
  let schema: Int
  /// The error in the declaration of the migrations; `nil` if there is none.
  let problem: String?
  let decodeState: @Sendable (_ json: String, _ schema: Int) throws -> State
  let decodeEvent: @Sendable (_ json: String, _ schema: Int) throws -> Event

  init<Hosted: Machine>(_ machine: Hosted.Type) where Hosted.State == State, Hosted.Event == Event {
    schema = machine.schema
    problem = MigrationPlan(machine).problem
    decodeState = { try Hosted.decodeState(Array($0.utf8), schema: $1, by: EventCodec()) }
    decodeEvent = { try Hosted.decodeEvent(Array($0.utf8), schema: $1, by: EventCodec()) }
  }
}

// Migrations.
extension XCTStateMachine {
  /// Asserts that the migrations convert a stored state of an earlier schema version to `state`.
  ///
  /// ```swift
  /// XCTStateMachine(Door.self)
  ///   .assertMigrates(from: #"{"open":{"persons":2}}"#, to: .opened(persons: 2))
  /// ```
  /// - Parameters:
  ///   - json: The stored state, as `orchestrator journal -o json` shows it.
  ///   - schema: The schema version of the stored state. Default: the version before the current
  ///     version.
  @discardableResult
  public func assertMigrates(
    from json: String, schema: Int? = nil, to state: State, fail: ((String) -> Void)? = nil,
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) -> Self {
    let callSite = AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    if let text = migrationFailure(json, schema, state, \.decodeState) {
      report(text, at: callSite, fail)
    }
    return self
  }

  /// Asserts that the migrations convert a stored event of an earlier schema version to `event`.
  /// - Parameters:
  ///   - json: The stored event, as `orchestrator journal -o json` shows it.
  ///   - schema: The schema version of the stored event. Default: the version before the current
  ///     version.
  @discardableResult
  public func assertMigrates(
    from json: String, schema: Int? = nil, toEvent event: Event, fail: ((String) -> Void)? = nil,
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) -> Self {
    let callSite = AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    if let text = migrationFailure(json, schema, event, \.decodeEvent) {
      report(text, at: callSite, fail)
    }
    return self
  }

  /// Returns a failure text; `nil` if the migrations convert the stored value to `expected`.
  private func migrationFailure<Value>(
    _ json: String, _ schema: Int?, _ expected: Value,
    _ read: (StoredValues<State, Event>) -> @Sendable (String, Int) throws -> Value
  ) -> String? {
    guard let storedValues else {
      return "the migrations are not known; write 'XCTStateMachine(MACHINE.self)' with the type of "
        + "the machine"
    }
    if let problem = storedValues.problem { return problem }
    let version = schema ?? max(1, storedValues.schema - 1)
    let summary = "when \(json) of version \(version) is migrated: "
    do {
      let actual = try read(storedValues)(json, version)
      if ValueComparison.areEqual(expected, actual) { return nil }
      let lines =
        [
          summary + "the value differs", "  expected: \(expected)", "  actual:   \(actual)",
        ]
        + ValueComparison.differences(expected: expected, actual: actual).map { "  \($0)" }
      return lines.joined(separator: "\n")
    } catch {
      return summary + "\(error)"
    }
  }
}
