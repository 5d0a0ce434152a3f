import PipeSupport

/// Keeps a model between the steps of one run of its machine, and hears of what it does in between.
package actor ModelHost<Model: HostableModel> {
  private let parameters: Model.Parameters
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
  package func step(from state: Model.State, _ event: Model.Event) async -> Model.State {
    let model: Model
    do {
      model = try current(in: state)
    } catch {
      warn("the model cannot take '\(event)': \(error)")
      return state
    }
    let scope = RunScope.current
    passage.begin { scope?.passes(through: $0) }
    isStepping = true
    defer { isStepping = false }
    // What stands for a change that the model has made is not for the model.
    if !isOwn(event, of: model) { await model.take(event) }
    recorded = await rest(of: model)
    announced = nil
    return recorded
  }

  /// The events that stand for what the model does by itself. Starts it, where it has taken none yet.
  package func changes() -> AsyncStream<Model.Event> {
    do { _ = try current(in: recorded) } catch { warn("the model cannot start: \(error)") }
    return events.stream
  }

  /// Where the model comes to rest.
  private func rest(of model: Model) async -> Model.State {
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
    self.model = model
    recorded = state
    announced = nil
    follow(model)
    return model
  }

  private func follow(_ model: Model) {
    cancelPassage?()
    let passage = ModelPassage<Model.State>()
    self.passage = passage
    cancelPassage = model.stateDidChange.subscribe({ passage.enter($0) }, {})
    following?.cancel()
    following = Task { [weak self] in
      for await _ in model.stateDidChange {
        guard let self, !Task.isCancelled else { return }
        await self.hasChanged()
      }
    }
  }

  private func hasChanged() {
    guard let state = model?.state, !isStepping, state.isStable, state != recorded,
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
