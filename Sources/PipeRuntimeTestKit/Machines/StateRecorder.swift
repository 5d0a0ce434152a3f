import PipeRuntime

/// Records the states of a running machine, beginning with the initial state.
///
/// Create the recorder immediately after the sequence and before any other iterator, so that it
/// records every state. Each wait considers only the states after the last state of the previous
/// wait.
///
/// ```swift
/// let door = AsyncStateMachineSequence(stateMachine: stateMachine, runtime: runtime)
/// let recorder = StateRecorder(door)
/// await door.send(.closeButtonWasPressed)
/// await recorder.wait(until: .closed)
/// ```
///
/// The recorder is an iterator of the sequence. When the recorder is deallocated, and the sequence
/// has no other iterator, the run of the machine ends.
public final class StateRecorder<State: DSLCompatible>: Sendable {
  private struct Record {
    var states: [State] = []
    var hasEnded = false
    /// The index of the first state that the next wait considers.
    var nextSearchIndex = 0
  }

  private let record: ObservedValue<Record>
  private let task: Task<Void, Never>

  /// Starts to record.
  public init<Event, Output>(_ sequence: AsyncStateMachineSequence<State, Event, Output>) {
    let iterator = sequence.makeAsyncIterator()
    let record = ObservedValue(Record())
    self.record = record
    task = Task {
      while let state = await iterator.next() { record.change { $0.states.append(state) } }
      record.change { $0.hasEnded = true }
    }
  }

  deinit { task.cancel() }

  /// The states recorded so far.
  public var states: [State] { record.value.states }
}

// Waits for states. The parameter `within:` limits the time without progress. Time in which this
// process computes, or waits for a processor, does not count.
extension StateRecorder {
  /// Waits until the first `count` states of the run are recorded.
  /// - Returns: The first `count` states. If the wait fails, all states recorded so far.
  @discardableResult
  public func states(
    count: Int, within limit: Duration = .seconds(10), fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) async -> [State] {
    let waitResult = await record.firstResult(within: limit) { record -> [State]?? in
      if record.states.count >= count { return .some(Array(record.states.prefix(count))) }
      return record.hasEnded ? .some(nil) : nil
    }
    if case .found(let states?)? = waitResult { return states }
    fail(
      "\(states.count) of \(count) states were recorded", within: limit, waitResult?.stall, from: 0,
      at: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
    return states
  }

  /// Waits for a state that equals `state`.
  /// - Returns: The states after the last state of the previous wait, up to and including the state
  ///   that ended this wait. Empty if the wait fails.
  @discardableResult
  public func wait(
    until state: State, within limit: Duration = .seconds(10), fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) async -> [State] {
    await wait(
      for: "\(state)", within: limit,
      at: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    ) { ValueComparison.areEqual($0, state) }
  }

  /// Waits for a state whose case is one of the cases in `states`. Ignores associated values.
  @discardableResult
  public func wait(
    until states: OneOf<State>, within limit: Duration = .seconds(10), fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) async -> [State] {
    await wait(
      for: states.tags.map { EnumCases<State>.names[$0] }.joined(separator: " or "),
      within: limit,
      at: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    ) { states.contains($0) }
  }

  /// Waits for a state that satisfies `predicate`.
  @discardableResult
  public func wait(
    within limit: Duration = .seconds(10), fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column,
    where predicate: @escaping @Sendable (State) -> Bool
  ) async -> [State] {
    await wait(
      for: "state that satisfies the predicate", within: limit,
      at: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column),
      predicate)
  }

  private func wait(
    for summary: String, within limit: Duration, at callSite: AssertionLocation,
    _ predicate: @escaping @Sendable (State) -> Bool
  ) async -> [State] {
    let start = record.value.nextSearchIndex
    let waitResult = await record.firstResult(within: limit) { record -> [State]?? in
      let start = record.nextSearchIndex
      if let index = record.states[start...].firstIndex(where: predicate) {
        record.nextSearchIndex = index + 1
        return .some(Array(record.states[start...index]))
      }
      return record.hasEnded ? .some(nil) : nil
    }
    if case .found(let states?)? = waitResult { return states }
    fail("no \(summary)", within: limit, waitResult?.stall, from: start, at: callSite)
    return []
  }

  private func fail(
    _ summary: String, within limit: Duration, _ stall: Stall?, from start: Int,
    at callSite: AssertionLocation
  ) {
    let record = record.value
    var lines = [
      summary + (record.hasEnded ? " before the run ended" : " within \(limit.shortText)")
    ]
    lines.append("  states recorded:" + (record.states.isEmpty ? " none" : ""))
    let shown = 30
    let hidden = max(0, record.states.count - shown)
    if hidden > 0 { lines.append("    … \(hidden) earlier states") }
    for (index, state) in record.states.enumerated().dropFirst(hidden) {
      let seen = index < start ? " (met by an earlier wait)" : ""
      lines.append("    \(index). \(state)\(seen)")
    }
    lines.append(
      record.hasEnded
        ? "  Check what ends the run: finish(), or the end of the last reference to the sequence."
        : "  Check that the event is accepted and the effect is mapped, or pass a longer "
          + "'within:'.")
    if let stall { lines.append(stall.indented) }
    FailureReporter.fail(lines.joined(separator: "\n"), at: callSite)
  }
}

extension Runtime {
  /// Returns a copy of the runtime that also reports every transition to `coverage`.
  ///
  /// Use the copy for only one run, because each sequence requires its own runtime.
  ///
  /// ```swift
  /// let door = AsyncStateMachineSequence(
  ///   stateMachine: stateMachine, runtime: runtime.recording(into: coverage))
  /// ```
  public func recording(into coverage: TransitionCoverage<State, Event, Output>) -> Self {
    // In each step, the engine calls the middleware for events first. If the machine accepts the
    // event, the engine then calls the middleware for states, unless the event is ignored.
    let last = Locked<(state: State?, event: Event?)>((nil, nil))
    return register(middleware: { (event: Event) in
      let state = last.withLock { last in
        last.event = event
        return last.state
      }
      guard let state else { return }
      if coverage.ignores(event, in: state) {
        coverage.record(from: state, on: event, isTaken: true)
      } else {
        coverage.recordOffer(of: event, in: state)
      }
    })
    .register(middleware: { (state: State) in
      let before = last.withLock { last in
        defer { last = (state, nil) }
        return last
      }
      guard let from = before.state else { return }
      if let event = before.event {
        coverage.recordTransition(on: event, in: from)
      } else {
        coverage.recordStep(from: from)
      }
    })
  }
}

/// A thread-safe value. Tasks can wait until the value changes.
final class ObservedValue<Value: Sendable>: Sendable {
  private struct Content {
    var value: Value
    var changes = 0
    var waitingContinuations: [Int: CheckedContinuation<Void, Never>] = [:]
    var lastID = 0
  }

  private let content: Locked<Content>

  init(_ value: Value) { content = Locked(Content(value: value)) }

  var value: Value { content.withLock(\.value) }

  /// The number of changes since the value was created.
  var changeCount: Int { content.withLock(\.changes) }

  /// Changes the value, and wakes all tasks that wait for a change.
  func change<Result>(_ body: (inout Value) -> sending Result) -> sending Result {
    let (result, waiting) = content.withLock { content in
      let result = body(&content.value)
      content.changes += 1
      defer { content.waitingContinuations = [:] }
      return (result, Array(content.waitingContinuations.values))
    }
    for continuation in waiting { continuation.resume() }
    return result
  }

  /// Calls `search` with the current value, and again after each change, until `search` returns a
  /// result. Returns `nil` if the task is cancelled.
  func firstResult<Result: Sendable>(
    within limit: Duration, _ search: @escaping @Sendable (inout Value) -> Result?
  ) async -> WaitResult<Result>? {
    // `try?` hides only a cancellation of the task, for which the result is `nil`.
    try? await withStallLimit(limit) { [self] in
      while !Task.isCancelled {
        let (found, changes) = content.withLock { (search(&$0.value), $0.changes) }
        if let found { return found }
        await waitForChange(since: changes)
      }
      throw CancellationError()
    }
  }

  private func waitForChange(since changes: Int) async {
    let id = content.withLock { content in
      content.lastID += 1
      return content.lastID
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isDone = content.withLock { content in
          if content.changes != changes || Task.isCancelled { return true }
          content.waitingContinuations[id] = continuation
          return false
        }
        if isDone { continuation.resume() }
      }
    } onCancel: {
      content.withLock { $0.waitingContinuations.removeValue(forKey: id) }?.resume()
    }
  }
}
