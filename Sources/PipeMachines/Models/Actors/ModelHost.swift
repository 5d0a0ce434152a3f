import PipeSupport

/// Keeps a model between the steps of one run of its machine, and tells the run what it does in between.
///
/// An event of which it is not known whether it will be taken is evaluated by a model of its own, made in
/// the state of the machine. Only the step puts that in the place of the one that there was, which until
/// then goes on as if nobody had asked.
package final class ModelHost<Model: HostableModel>: Sendable {
  private typealias Hosted = HostedModel<Model>
  /// An event that stands for what the model has done.
  package typealias Announced = (event: Model.Event, announcement: Announcement)

  /// Where an event leads whose step is taken later, or not at all.
  private enum Promise {
    /// Where this model has come to.
    case model(Hosted, Model.State)
    /// To where the model is already.
    case change(Hosted.Change)
  }

  private struct Content {
    /// The model that stands for the machine.
    var model: Hosted
    var promise: Promise?
  }

  private let parameters: Model.Parameters
  private let content: Locked<Content>
  private let announced = AsyncStream.makeStream(of: Announced.self)

  package init(_ parameters: Model.Parameters, in state: Model.State) {
    self.parameters = parameters
    content = Locked(Content(model: Hosted(in: state, parameters)))
  }

  /// The host of the run whose work the task does; `nil` outside of one.
  package static func current(_ parameters: Model.Parameters) -> ModelHost<Model>? {
    RunScope.current?.shared { start in
      ModelHost(parameters, in: start as? Model.State ?? Model.initialState(parameters))
    }
  }

  deinit { content.withLock(\.model).letGo() }

  /// The event leads from one stable state to the next.
  /// - Throws: What the model throws, which is then made anew where it stood; `CancellationError` where
  ///   the step is not waited for any more.
  package func step(from state: Model.State, _ event: Model.Event) async throws -> Model.State {
    RunScope.isTentative
      ? try await evaluate(event, in: state) : try await take(event, in: state)
  }

  /// The events that stand for what the model does by itself. Starts it, where it has taken none yet.
  package func changes() -> AsyncStream<Announced> {
    follow(content.withLock(\.model))
    return announced.stream
  }

  // MARK: Steps that are taken

  private func take(_ event: Model.Event, in state: Model.State) async throws -> Model.State {
    let scope = RunScope.current
    let tell: @Sendable (Model.State) -> Void = { scope?.passes(through: $0) }
    let hosted = model(in: state)
    // What stands for a change that the model has made is not for the model.
    if let change = hosted.change(on: event), hosted.pass(change, tell) { return change.state }
    do {
      _ = try hosted.model()
    } catch {
      Hosted.warn("the model cannot take '\(event)': \(error)")
      throw error
    }
    follow(hosted)
    let next: Model.State
    do {
      next = try await hosted.take(event, tell)
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

  /// The model in a state: the one that there is, or a new one.
  private func model(in state: Model.State) -> Hosted {
    let model = content.withLock(\.model)
    return model.settled == state ? model : replace(with: Hosted(in: state, parameters))
  }

  /// Lets go of the model, and has another one stand for the machine.
  @discardableResult
  private func replace(with model: Hosted) -> Hosted {
    let last = content.withLock { content in
      defer { content.model = model }
      return content.model
    }
    last.letGo()
    return model
  }

  /// Makes the model where it is not made yet, and tells what it does by itself.
  private func follow(_ hosted: Hosted) {
    do {
      try hosted.follow { [announced = announced.continuation] in announced.yield(($0, $1)) }
    } catch {
      Hosted.warn("the model cannot start: \(error)")
    }
  }

  // MARK: Steps that may be taken

  private func evaluate(_ event: Model.Event, in state: Model.State) async throws -> Model.State {
    try Task.checkCancellation()
    if let change = content.withLock(\.model).change(on: event) {
      try promise(.change(change))
      return change.state
    }
    let hosted = Hosted(in: state, parameters)
    do {
      _ = try hosted.model()
    } catch {
      Hosted.warn("the model cannot take '\(event)': \(error)")
      throw error
    }
    let next = try await hosted.take(event, nil)
    try promise(.model(hosted, next))
    return next
  }

  /// Keeps where an event leads, unless nobody waits for that any more: the task is cancelled before it
  /// is abandoned.
  private func promise(_ promise: Promise) throws {
    let isWaitedFor = content.withLock { content in
      guard !Task.isCancelled else { return false }
      content.promise = promise
      return true
    }
    if !isWaitedFor { throw CancellationError() }
  }

  private func takePromise() -> Promise? {
    content.withLock { content in
      defer { content.promise = nil }
      return content.promise
    }
  }
}

// The steps of its run are taken, or are not, in the isolation of its machine.
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

  package func stand(in state: any Sendable) {
    guard let state = state as? Model.State else { return }
    abandon()
    let model = replace(with: Hosted(in: state, parameters))
    // In a task of its own: what a model does while it is made is not to keep the machine.
    Task { [weak self] in self?.follow(model) }
  }
}

/// The states that a model goes through, until its machine has been told of them.
///
/// A state that is not stable is told of at once. A stable one waits for the next: it may be where the
/// step ends.
final class ModelPassage<State: StateProtocol & Equatable>: Sendable {
  private struct Content {
    /// The last one seen; `nil` before the first, in which the model starts.
    var last: State?
    /// Those that the machine was not told of.
    var waiting: [State] = []
    /// Tells the machine, while it takes a step.
    var tell: (@Sendable (State) -> Void)?

    mutating func tellPassed() {
      guard let tell, let last = waiting.last else { return }
      for state in waiting.dropLast() { tell(state) }
      waiting.removeAll(keepingCapacity: true)
      if last.isStable { waiting.append(last) } else { tell(last) }
    }
  }

  private let content = Locked(Content())
  /// States that may wait for a step. Unit: states.
  private static var capacity: Int { 1_024 }

  /// The model has entered a state.
  func enter(_ state: State) {
    content.withLock { content in
      let last = content.last
      content.last = state
      guard let last, last != state else { return }
      content.waiting.append(state)
      if content.tell != nil {
        content.tellPassed()
      } else if content.waiting.count > Self.capacity {
        content.waiting.removeFirst()
      }
    }
  }

  /// The machine takes a step, to which belongs what the model has gone through since the last one.
  func begin(_ tell: @escaping @Sendable (State) -> Void) {
    content.withLock { content in
      content.tell = tell
      content.tellPassed()
    }
  }

  /// The machine takes a step to a state that the model has been in: what the model went through before
  /// that belongs to the step, and what came after it to later ones.
  func pass(through state: State, _ tell: (@Sendable (State) -> Void)?) {
    content.withLock { content in
      guard let index = content.waiting.firstIndex(of: state) else { return }
      if let tell { for state in content.waiting[..<index] { tell(state) } }
      content.waiting.removeSubrange(...index)
    }
  }

  /// The model is of no use any more: what it still goes through belongs to no step.
  func close() {
    content.withLock { content in
      content.tell = nil
      content.waiting = []
    }
  }

  /// The step ends in a state, where that is the last one seen.
  /// - Parameter isLate: Whether it ends there also where the model's publisher has not told of it yet.
  /// - Returns: Whether it has ended.
  func end(in state: State, isLate: Bool) -> Bool {
    content.withLock { content in
      guard isLate || content.last == state else { return false }
      if content.waiting.last == state { content.waiting.removeLast() }
      if let tell = content.tell { for state in content.waiting { tell(state) } }
      content.waiting.removeAll(keepingCapacity: true)
      content.tell = nil
      return true
    }
  }
}
