import PipeMachines
import PipeSupport

/// A machine that runs a model, for use in a node, a sequence or a composite:
/// `ModelMachine<LampModel>`.
///
/// A step leads from one stable state to the next. The intermediate states are entered and
/// published as they occur, each under its own version. The journal records the step with its last
/// state. Only then do pipes send the events for the intermediate states.
///
/// If the process dies before the step is recorded, the event counts as not applied. The next
/// process applies the event again, with a model that starts in the state before the step. The
/// model's side effects may then happen again, and its intermediate states may be published again.
///
/// A model refuses an event only if its `take` throws. An event that has no meaning for the model
/// leads to the current state again.
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
  public static var name: String { TypeName.unqualified(Model.self) }

  /// Returns the machine that calls the model.
  public static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    let initial = Model.initialState(parameters)
    // The host for callers that evaluate the machine outside a run.
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
