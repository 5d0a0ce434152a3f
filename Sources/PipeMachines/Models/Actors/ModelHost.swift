import PipeSupport

/// Keeps a model between the steps of one run of its machine, and hears of what it does in between.
package actor ModelHost<Model: HostableModel> {
  /// What is told of the machine outside of a step.
  private enum News {
    /// The step to which the model was tentatively led is taken.
    case kept
    /// The machine stands here, wherever the model is.
    case stands(Model.State)
  }

  private let parameters: Model.Parameters
  /// What nobody has acted on yet.
  private nonisolated let news = Locked<News?>(nil)
  /// The state of the machine, as it was last told or asked for.
  private var recorded: Model.State
  private var model: Model?
  /// What it goes through.
  private var passage = ModelPassage<Model.State>()
  private var cancelPassage: StatePublisher<Model.State>.Cancellation?
  /// The change that an event was made for, and whose step is still to come: news of what led to it may
  /// come later than the change.
  private var announced: Model.State?
  private var isStepping = false
  /// Whether the model has been led to a state that its machine may never be in.
  private var isTentative = false
  private let events = AsyncStream.makeStream(of: Model.Event.self)
  private var following: Task<Void, Never>?

  package init(_ parameters: Model.Parameters, in state: Model.State) {
    self.parameters = parameters
    recorded = state
  }

  /// The host of the run whose work the task does; `nil` outside of one.
  package static func current(_ parameters: Model.Parameters) -> ModelHost<Model>? {
    RunScope.current?.shared { start in
      ModelHost(parameters, in: start as? Model.State ?? Model.initialState(parameters))
    }
  }

  deinit {
    following?.cancel()
    cancelPassage?()
  }

  /// The event leads from one stable state to the next.
  /// - Throws: What the model throws, which is then made anew where it stood; `CancellationError` where the
  ///   machine was told meanwhile that it stands elsewhere.
  package func step(from state: Model.State, _ event: Model.Event) async throws -> Model.State {
    // Its machine has gone on: the step is of no use any more, and the one that is to take its place may
    // have begun.
    if RunScope.isTentative { try Task.checkCancellation() }
    if case .stands? = takeNews() { discard() }
    // Told in between: the task is cancelled before that.
    if RunScope.isTentative, Task.isCancelled {
      restart(in: state)
      throw CancellationError()
    }
    let model: Model
    do {
      model = try current(in: state)
    } catch {
      warn("the model cannot take '\(event)': \(error)")
      throw error
    }
    let passage = passage
    let scope = RunScope.isTentative ? nil : RunScope.current
    passage.begin { scope?.passes(through: $0) }
    isStepping = true
    isTentative = RunScope.isTentative
    do {
      // What stands for a change that the model has made is not for the model.
      if !isOwn(event, of: model) { try await model.take(event) }
    } catch {
      guard isCurrent(model) else { throw CancellationError() }
      discard()
      restart(in: state)
      throw error
    }
    let next = await rest(of: model, passage)
    guard isCurrent(model) else { throw CancellationError() }
    isStepping = false
    recorded = next
    announced = nil
    return next
  }

  /// The events that stand for what the model does by itself. Starts it, where it has taken none yet.
  package func changes() -> AsyncStream<Model.Event> {
    do { _ = try current(in: recorded) } catch { warn("the model cannot start: \(error)") }
    return events.stream
  }

  /// Where the model comes to rest.
  private func rest(of model: Model, _ passage: ModelPassage<Model.State>) async -> Model.State {
    var attempts = 0
    while true {
      var state = model.state
      if !state.isStable {
        for await next in model.stateDidChange where next.isStable {
          state = next
          break
        }
      }
      attempts += 1
      if passage.end(in: state, isLate: attempts == Self.attempts) { return state }
      // It has moved on already, or its publisher lags behind it.
      await Task.yield()
    }
  }

  /// How often it is looked whether the model's publisher tells what its state is.
  private static var attempts: Int { 100 }

  private func isOwn(_ event: Model.Event, of model: Model) -> Bool {
    guard model.state != recorded, let own = Model.event(forChangeTo: model.state) else {
      return false
    }
    return EnumCases.tag(of: own) == EnumCases.tag(of: event)
  }

  /// The model in a state: the one that there is, or a new one.
  private func current(in state: Model.State) throws -> Model {
    if let model, state == recorded { return model }
    let model = try Model(startsWith: state.stable(), parameters)
    discard()
    self.model = model
    recorded = state
    follow(model)
    return model
  }

  private func isCurrent(_ model: Model) -> Bool { self.model === model }

  private func follow(_ model: Model) {
    let passage = ModelPassage<Model.State>()
    self.passage = passage
    cancelPassage = model.stateDidChange.subscribe({ passage.enter($0) }, {})
    following = Task { [weak self] in
      for await _ in model.stateDidChange {
        guard let self, !Task.isCancelled else { return }
        await self.hasChanged()
      }
    }
  }

  private func hasChanged() {
    guard let state = model?.state, !isStepping, !isTentative, state.isStable, state != recorded,
      state != announced
    else { return }
    announced = state
    if let event = Model.event(forChangeTo: state) {
      events.continuation.yield(event)
    } else {
      warn(
        "the model has gone to '\(state)' by itself; let 'event(forChangeTo:)' say which event that "
          + "stands for")
    }
  }

  private func warn(_ text: String) {
    StandardError.write("warning: \(Model.self): \(text)\n")
  }
}

// Steps that are taken together with other machines, or are not.
extension ModelHost: TentativeWork {
  package nonisolated func keep() { tell(.kept) }

  package nonisolated func stand(in state: any Sendable) {
    if let state = state as? Model.State { tell(.stands(state)) }
  }

  /// Acts on what is told, unless the next step is faster.
  private nonisolated func tell(_ news: News) {
    self.news.withLock { $0 = news }
    Task { await actOnNews() }
  }

  private func actOnNews() {
    switch takeNews() {
    case .kept: hasChanged()
    case .stands(let state):
      discard()
      restart(in: state)
    case nil: break
    }
  }

  /// What was told, and is acted on now.
  private func takeNews() -> News? {
    let told = news.withLock { news in
      defer { news = nil }
      return news
    }
    if told != nil { isTentative = false }
    return told
  }

  /// Lets go of the model, whatever it is doing.
  private func discard() {
    model = nil
    isStepping = false
    isTentative = false
    announced = nil
    following?.cancel()
    following = nil
    passage.close()
    cancelPassage?()
    cancelPassage = nil
  }

  /// Makes the model in the state in which the machine stands.
  private func restart(in state: Model.State) {
    do { _ = try current(in: state) } catch { warn("the model cannot start: \(error)") }
  }
}
