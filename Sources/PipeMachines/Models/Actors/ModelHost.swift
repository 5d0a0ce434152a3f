import PipeSupport

/// Keeps a model between the steps of one run of its machine. Announces the changes that the model
/// makes by itself between steps.
///
/// While it is not known whether all participants accept an event, a second model evaluates the
/// event, beginning in the machine's state. The second model replaces the first model only if the
/// step is taken. Until then, the first model continues unaffected.
package final class ModelHost<Model: HostableModel>: Sendable {
  private typealias Hosted = HostedModel<Model>
  /// An event for a change that the model has made by itself.
  package typealias Announced = (event: Model.Event, announcement: Announcement)

  /// The result of an event that a second model has processed, or that describes a change of the
  /// model. The step may be taken later, or never.
  private enum Promise {
    /// A second model, and the stable state in which it has processed the event.
    case model(Hosted, Model.State)
    /// A change that the model has already made.
    case change(Hosted.Change)
  }

  private struct Content {
    /// The model that is in the machine's state.
    var model: Hosted
    var promise: Promise?
  }

  private let parameters: Model.Parameters
  private let content: Locked<Content>
  private let announcedChanges = AsyncStream.makeStream(of: Announced.self)

  package init(_ parameters: Model.Parameters, in state: Model.State) {
    self.parameters = parameters
    content = Locked(Content(model: Hosted(in: state, parameters)))
  }

  /// Returns the model host of the run that the current task works for; `nil` outside of a run.
  package static func current(_ parameters: Model.Parameters) -> ModelHost<Model>? {
    RunScope.current?.shared { start in
      ModelHost(parameters, in: start as? Model.State ?? Model.initialState(parameters))
    }
  }

  deinit { content.withLock(\.model).release() }

  /// Processes an event, from one stable state to the next.
  /// - Throws: The error of the model. A new model in the previous state then replaces the model.
  ///   `CancellationError` if the step has been abandoned.
  package func step(from state: Model.State, _ event: Model.Event) async throws -> Model.State {
    RunScope.isTentative
      ? try await evaluate(event, in: state) : try await process(event, in: state)
  }

  /// Returns the events for the changes that the model makes by itself. If the model does not exist
  /// yet, makes the model.
  package func changes() -> AsyncStream<Announced> {
    follow(content.withLock(\.model))
    return announcedChanges.stream
  }

  // MARK: Definite steps

  private func process(_ event: Model.Event, in state: Model.State) async throws -> Model.State {
    let scope = RunScope.current
    let reportState: @Sendable (Model.State) -> Void = {
      scope?.reportIntermediateState(through: $0)
    }
    let hosted = model(in: state)
    // An event for a change that the model has already made is not passed to the model.
    if let change = hosted.announcedChange(on: event), hosted.pass(change, reportState) {
      return change.state
    }
    do {
      _ = try hosted.model()
    } catch {
      Hosted.warn("the model cannot accept event '\(event)': \(error)")
      throw error
    }
    follow(hosted)
    let next: Model.State
    do {
      next = try await hosted.take(event, reportState)
    } catch {
      guard isCurrent(hosted) else { throw CancellationError() }
      follow(replace(with: Hosted(in: state, parameters)))
      throw error
    }
    guard isCurrent(hosted) else { throw CancellationError() }
    hosted.settle(in: next)
    return next
  }

  private func isCurrent(_ hosted: Hosted) -> Bool { content.withLock { $0.model === hosted } }

  /// Returns a model in the given state: the current model, or a new model.
  private func model(in state: Model.State) -> Hosted {
    let model = content.withLock(\.model)
    return model.settledState == state ? model : replace(with: Hosted(in: state, parameters))
  }

  /// Releases the current model and replaces it with another model.
  @discardableResult
  private func replace(with model: Hosted) -> Hosted {
    let last = content.withLock { content in
      defer { content.model = model }
      return content.model
    }
    last.release()
    return model
  }

  /// Makes the model if it does not exist yet, and starts to announce its changes.
  private func follow(_ hosted: Hosted) {
    do {
      try hosted.follow { [announced = announcedChanges.continuation] in announced.yield(($0, $1)) }
    } catch {
      Hosted.warn("the model cannot start: \(error)")
    }
  }

  // MARK: Tentative steps

  private func evaluate(_ event: Model.Event, in state: Model.State) async throws -> Model.State {
    try Task.checkCancellation()
    if let change = content.withLock(\.model).announcedChange(on: event) {
      try storePromise(.change(change))
      return change.state
    }
    let hosted = Hosted(in: state, parameters)
    do {
      _ = try hosted.model()
    } catch {
      Hosted.warn("the model cannot accept event '\(event)': \(error)")
      throw error
    }
    let next = try await hosted.take(event, nil)
    try storePromise(.model(hosted, next))
    return next
  }

  /// Stores the result of an event. If the step has been abandoned, the current task is cancelled,
  /// and this function throws `CancellationError`.
  private func storePromise(_ promise: Promise) throws {
    let isStillAwaited = content.withLock { content in
      guard !Task.isCancelled else { return false }
      content.promise = promise
      return true
    }
    if !isStillAwaited { throw CancellationError() }
  }

  private func takePromise() -> Promise? {
    content.withLock { content in
      defer { content.promise = nil }
      return content.promise
    }
  }
}

// The run calls these functions in the isolation of its machine.
extension ModelHost: TentativeWork {
  package func keep() {
    switch takePromise() {
    case .model(let hosted, let next):
      replace(with: hosted)
      hosted.settle(in: next)
      follow(hosted)
    case .change(let change): _ = content.withLock(\.model).pass(change, nil)
    case nil: break
    }
  }

  package func abandon() { _ = takePromise() }

  package func restartWork(in state: any Sendable) {
    guard let state = state as? Model.State else { return }
    abandon()
    let model = replace(with: Hosted(in: state, parameters))
    // Makes the model in a new task, so that work during the model's initialization does not delay
    // the machine.
    Task { [weak self] in self?.follow(model) }
  }
}

/// The intermediate states that a model has entered, and that the model's machine has not received
/// yet.
///
/// An unstable state is passed to the machine immediately. A stable state is passed only when the
/// next state arrives, because the stable state may be the last state of the step.
final class IntermediateStateBuffer<State: StateProtocol & Equatable>: Sendable {
  private struct Content {
    /// The last state that the model has entered; `nil` before the model's initial state.
    var lastState: State?
    /// The states that the machine has not received yet.
    var pendingStates: [State] = []
    /// Passes a state to the machine; `nil` if the machine is not taking a step.
    var reportState: (@Sendable (State) -> Void)?

    mutating func reportPassedStates() {
      guard let reportState, let last = pendingStates.last else { return }
      for state in pendingStates.dropLast() { reportState(state) }
      pendingStates.removeAll(keepingCapacity: true)
      if last.isStable { pendingStates.append(last) } else { reportState(last) }
    }
  }

  private let content = Locked(Content())
  /// The maximum number of states that wait for a step of the machine. Unit: states.
  private static var capacity: Int { 1_024 }

  /// Handles a state that the model has entered.
  func enter(_ state: State) {
    content.withLock { content in
      let last = content.lastState
      content.lastState = state
      guard let last, last != state else { return }
      content.pendingStates.append(state)
      if content.reportState != nil {
        content.reportPassedStates()
      } else if content.pendingStates.count > Self.capacity {
        content.pendingStates.removeFirst()
      }
    }
  }

  /// Begins a step of the machine. All states since the previous step are part of this step.
  func beginStep(_ reportState: @escaping @Sendable (State) -> Void) {
    content.withLock { content in
      content.reportState = reportState
      content.reportPassedStates()
    }
  }

  /// Handles a step of the machine to a state that the model has already entered. The states before
  /// that state are part of this step. Later states are part of later steps.
  func pass(through state: State, _ reportState: (@Sendable (State) -> Void)?) {
    content.withLock { content in
      guard let index = content.pendingStates.firstIndex(of: state) else { return }
      if let reportState { for state in content.pendingStates[..<index] { reportState(state) } }
      content.pendingStates.removeSubrange(...index)
    }
  }

  /// Stops passing states to the machine, because the model was released. Later states of the model
  /// belong to no step.
  func close() {
    content.withLock { content in
      content.reportState = nil
      content.pendingStates = []
    }
  }

  /// Ends the step in `state`, if this is the last state that the model has entered.
  /// - Parameter isLate: Whether to end the step even if the model's publisher has not delivered
  ///   this state yet.
  /// - Returns: Whether the step has ended.
  func endStep(in state: State, isLate: Bool) -> Bool {
    content.withLock { content in
      guard isLate || content.lastState == state else { return false }
      if content.pendingStates.last == state { content.pendingStates.removeLast() }
      if let reportState = content.reportState {
        for state in content.pendingStates { reportState(state) }
      }
      content.pendingStates.removeAll(keepingCapacity: true)
      content.reportState = nil
      return true
    }
  }
}
