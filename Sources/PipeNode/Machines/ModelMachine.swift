import PipeMachines
import PipeSupport

/// A model as a machine, so that a node, a sequence or a composite can run it: `ModelMachine<LampModel>`.
///
/// A step goes from one stable state to the next. The states in between are entered and shown as they
/// come, each under a version of its own. The step is recorded with its last state, and what pipes tell
/// of the states in between is sent then. Where the process dies before, the event has not been taken,
/// and is taken again by a model that starts in the state before it: what the model does to others on
/// the way may happen again, and so may states in between be seen again. A model refuses nothing: an
/// event that means nothing to it leads to the state that it is in, unless its `take` throws.
///
/// Each run has one model, which its machine and its runtime share.
public enum ModelMachine<Model: HostableModel>: Machine {
  /// The model's states.
  public typealias State = Model.State
  /// The model's events.
  public typealias Event = Model.Event
  /// The model's parameters.
  public typealias Parameters = Model.Parameters

  /// The name of the model's type, without its module.
  public static var name: String { TypeName.own(Model.self) }

  /// The model as a function.
  public static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    let initial = Model.initialState(parameters)
    // Of those who ask the function without a run.
    let own = ModelHost<Model>(parameters, in: initial)
    var machine = StateMachine<State, Event, Never>(
      initial: initial,
      awaiting: { state, event in
        try await (ModelHost<Model>.current(parameters) ?? own).step(from: state, event)
      }, selfContained: Model.selfContained)
    do { _ = try machine.initial.stable() } catch { machine.problem = error.description }
    return machine
  }

  /// The model's pipes; and follows what it does by itself.
  public static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Model.runtime(parameters, ports).feedback(
      Feedback(announced: {
        ModelHost<Model>.current(parameters)?.changes() ?? AsyncStream { $0.finish() }
      }))
  }
}
