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
  ///
  /// What it goes through on the way is seen as it comes, and what pipe rules tell of it is sent when the
  /// step is over.
  func take(_ event: Event) async

  /// The event that stands for a change which the model makes by itself, to a stable state. When a node
  /// hosts the model, the change is a step on that event, and the model does not take it again.
  ///
  /// Default: `nil`. A node whose model then changes by itself says so in its log, and shows that with
  /// the next event.
  static func event(forChangeTo state: State) -> Event?
}

extension HostableModel {
  /// None.
  public static func event(forChangeTo state: State) -> Event? { nil }
}
