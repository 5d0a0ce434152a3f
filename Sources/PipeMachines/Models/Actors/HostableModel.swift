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
  /// What it goes through on the way is seen as it comes, and what pipes are to tell of it is sent when
  /// the step is over.
  /// - Throws: To refuse the event. The model is then made anew in the state in which it stood.
  func take(_ event: Event) async throws

  /// The events for which ``take(_:)`` acts on nothing but the model itself, so that nodes can take them
  /// together with others. Default: none.
  ///
  /// Such an event is taken by a model of its own, made in the state in which this one stands, before it is
  /// known whether the others take it. Where they do, that one takes the place of this one, with what this
  /// one has beside its state, its tasks included; else this one goes on as if nobody had asked. So
  /// ``init(startsWith:_:)`` may be called often, and is to begin only what belongs to the state.
  static var selfContained: SelfContainedEvents<Event> { get }

  /// The pipes that lead from the model and to it, by their names. Default: none.
  ///
  /// ```swift
  /// static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<State, Event, Never> {
  ///   Runtime()
  ///     .connectAsSender(to: ports.pipe("lamp"), when: State.on, send: LampEvent.light)
  ///     .connectAsReceiver(to: ports.pipe("switch"))
  /// }
  /// ```
  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Never>

  /// The event that stands for a change which the model makes by itself, to a stable state. When a node
  /// hosts the model, the change is a step on that event, and the model does not take it again.
  ///
  /// Where the model takes another event before that step, the change is a part of the step on that one.
  ///
  /// Default: `nil`. A node whose model then changes by itself says so in its log, and shows that with
  /// the next event.
  static func event(forChangeTo state: State) -> Event?
}

extension HostableModel {
  /// No event.
  public static var selfContained: SelfContainedEvents<Event> { .none }

  /// No pipes.
  public static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> { Runtime() }

  /// None.
  public static func event(forChangeTo state: State) -> Event? { nil }
}
