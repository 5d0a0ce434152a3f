import PipeRuntime

/// Records the states of a running machine, the initial one first.
///
/// Create the recorder right after the sequence, before any other iterator, so that it misses no
/// state. Each wait starts after the state that the previous wait found, so states are found in
/// order.
///
/// ```swift
/// let door = AsyncStateMachineSequence(stateMachine: stateMachine, runtime: runtime)
/// let recorder = StateRecorder(door)
/// await door.send(.closeButtonWasPressed)
/// await recorder.wait(until: .closed)
/// ```
///
/// The recorder is an iterator of the sequence. If the sequence has no other iterator, the run ends
/// when the recorder is deallocated.
public final class StateRecorder<State: DSLCompatible>: Sendable {
  private struct Record {
    var states: [State] = []
    var hasEnded = false
    /// The index of the first state that the next wait considers.
    var position = 0
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

// Waiting. The parameter `within:` limits the time in which this process neither computes nor waits
// for a processor.
extension StateRecorder {
  /// Waits for the first states of the run.
  /// - Returns: `count` states; all recorded states if the wait failed.
  @discardableResult
  public func states(
    count: Int, within limit: Duration = .seconds(10), fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) async -> [State] {
    let waitResult = await record.first(within: limit) { record -> [State]?? in
      if record.states.count >= count { return .some(Array(record.states.prefix(count))) }
      return record.hasEnded ? .some(nil) : nil
    }
    if case .found(let states?)? = waitResult { return states }
    fail(
      "\(states.count) of \(count) states were recorded", within: limit, waitResult?.stall, from: 0,
      at: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
    return states
  }

  /// Waits for a state.
  /// - Returns: The states after the state that the previous wait found, up to and including this
  ///   state.
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

  /// Waits for a state whose case is one of `states`.
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

  /// Waits for a state that satisfies the predicate.
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
    let start = record.value.position
    let waitResult = await record.first(within: limit) { record -> [State]?? in
      let start = record.position
      if let index = record.states[start...].firstIndex(where: predicate) {
        record.position = index + 1
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
  /// Returns a copy of the runtime that also reports every transition of its machine to a
  /// collector.
  ///
  /// Use the copy for one run only: each sequence needs its own runtime.
  public func recording(into coverage: TransitionCoverage<State, Event, Output>) -> Self {
    // In each step, the middleware for events is called first. If the machine accepts the event,
    // the middleware for states is called next.
    let last = Locked<(state: State?, event: Event?)>((nil, nil))
    return register(middleware: { (event: Event) in
      let state = last.withLock { last in
        last.event = event
        return last.state
      }
      if let state { coverage.offered(event, in: state) }
    })
    .register(middleware: { (state: State) in
      let before = last.withLock { last in
        defer { last = (state, nil) }
        return last
      }
      if let state = before.state, let event = before.event { coverage.taken(event, in: state) }
    })
  }
}

/// A value whose changes tasks can wait for.
final class ObservedValue<Value: Sendable>: Sendable {
  private struct Content {
    var value: Value
    var changes = 0
    var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    var lastID = 0
  }

  private let content: Locked<Content>

  init(_ value: Value) { content = Locked(Content(value: value)) }

  var value: Value { content.withLock(\.value) }

  /// The number of changes.
  var changes: Int { content.withLock(\.changes) }

  /// Changes the value, and wakes all waiting tasks.
  func change<Result>(_ body: (inout Value) -> sending Result) -> sending Result {
    let (result, waiting) = content.withLock { content in
      let result = body(&content.value)
      content.changes += 1
      defer { content.waiting = [:] }
      return (result, Array(content.waiting.values))
    }
    for continuation in waiting { continuation.resume() }
    return result
  }

  /// Calls `search` after each change until it returns a result. Returns `nil` if the task is
  /// cancelled.
  func first<Result: Sendable>(
    within limit: Duration, _ search: @escaping @Sendable (inout Value) -> Result?
  ) async -> WaitResult<Result>? {
    // Cancellation is the only error.
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
          content.waiting[id] = continuation
          return false
        }
        if isDone { continuation.resume() }
      }
    } onCancel: {
      content.withLock { $0.waiting.removeValue(forKey: id) }?.resume()
    }
  }
}
