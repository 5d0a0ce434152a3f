/// A model that a node can host.
///
/// ```swift
/// extension LampModel: HostableModel {
///   enum Event: MachineEvent { case toggle }
///   func take(_ event: Event) async { … }
/// }
/// ```
public protocol HostableModel: StateMachineProtocol
where State: MachineState & Equatable {
  /// The events, as they travel.
  associatedtype Event: MachineEvent
  /// What a topology file can set.
  associatedtype Parameters: MachineParameters = NoParameters

  /// The state of a node that has never run.
  static func initialState(_ parameters: Parameters) -> State

  /// Makes the model in a stable state.
  init(startsWith state: State, _ parameters: Parameters) throws

  /// Takes an event; returns once the model is done with it and its state is stable.
  func take(_ event: Event) async
}

/// A model as a machine, so that a node can host it: `ModelMachine<LampModel>`.
///
/// A step goes from one stable state to the next: the event is taken with its last state, and recorded
/// then. Where the process dies before, the event has not been taken, and is taken again by a model
/// that starts in the state before it. So what a model does to others on the way may happen again, and
/// the states in between are seen in the process only. A model refuses nothing: an event that means
/// nothing to it leads to the state that it is in.
public enum ModelMachine<Model: HostableModel>: Machine {
  /// The model's states.
  public typealias State = Model.State
  /// The model's events.
  public typealias Event = Model.Event
  /// The model's parameters.
  public typealias Parameters = Model.Parameters

  /// The name of the model's type, without its module.
  public static var name: String { String(describing: Model.self) }

  /// The model as a function.
  public static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    let host = ModelHost<Model>(parameters)
    return StateMachine(initial: Model.initialState(parameters)) { state, event in
      .suspended { await host.step(from: state, event) }
    }
  }
}

/// Keeps a model between the steps of its machine.
private actor ModelHost<Model: HostableModel> {
  private let parameters: Model.Parameters
  private var model: Model?

  init(_ parameters: Model.Parameters) { self.parameters = parameters }

  func step(from state: Model.State, _ event: Model.Event) async -> Model.State {
    let model: Model
    do {
      model = try current(in: state)
    } catch {
      StandardError.write(
        "warning: the model cannot take '\(event)' in state '\(state)': \(error)\n")
      return state
    }
    await model.take(event)
    if model.state.isStable { return model.state }
    // It goes on by itself: the step ends where it comes to rest.
    for await state in model.stateDidChange where state.isStable { return state }
    return model.state
  }

  /// The model in a state: the one of the last step, or a new one.
  private func current(in state: Model.State) throws -> Model {
    if let model, model.state == state { return model }
    let model = try Model(startsWith: state.stable(), parameters)
    self.model = model
    return model
  }
}
