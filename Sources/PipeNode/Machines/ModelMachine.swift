import PipeMachines
import PipeSupport

/// A machine that runs a model, for use in a node, a sequence or a composite:
/// `ModelMachine<LampModel>`.
///
/// A step goes from one stable state to the next. The states in between are entered and shown as
/// they occur, each under its own version. The step is recorded with its last state. Events that
/// pipes send for the states in between follow that record.
///
/// If the process dies before the record, the event has not been taken. The next process takes it
/// again, with a model that starts in the state before the step. The model's side effects may then
/// happen again, and states in between may be seen again.
///
/// A model refuses no events: an event without a meaning for the model leads to the current state,
/// unless the model's `take` throws.
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

  /// Returns the machine that calls the model.
  public static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    let initial = Model.initialState(parameters)
    // Serves callers that evaluate the function outside a run.
    let own = ModelHost<Model>(parameters, in: initial)
    var machine = StateMachine<State, Event, Never>(
      initial: initial,
      awaiting: { state, event in
        try await (ModelHost<Model>.current(parameters) ?? own).step(from: state, event)
      }, selfContained: Model.selfContained)
    do { _ = try machine.initial.stable() } catch { machine.problem = error.description }
    return machine
  }

  /// Returns the model's runtime: its pipes, and a feedback that follows the model's own changes.
  public static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Model.runtime(parameters, ports).feedback(
      Feedback(announced: {
        ModelHost<Model>.current(parameters)?.changes() ?? AsyncStream { $0.finish() }
      }))
  }
}
