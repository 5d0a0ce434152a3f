/// A named machine that can be a component of a ``Product``.
public struct Component<State: MachineState, Event: MachineEvent>: Sendable {
  /// The name by which composites refer to the component.
  public let name: String
  /// The initial state.
  public let initial: State
  /// The names of the events that the machine accepts in at least one state.
  public let alphabet: [String]
  /// The events, with their payloads, that ``Product/explore(limit:)`` sends to the component.
  public let events: [Event]
  let reduce: @Sendable (State, Event) -> Reduction<State>
  let hasOutput: @Sendable (State) -> Bool

  /// Makes a component from a machine and its name.
  /// - Parameters:
  ///   - alphabet: The names of the events that the machine accepts. Default: the machine's own
  ///     alphabet. If an `if` or a `for` hides some of the machine's events, that alphabet contains
  ///     every event.
  ///   - events: The events that the exploration of the product sends to the component. Default:
  ///     every event of the alphabet that has no payload.
  public init<Output>(
    _ name: String, machine: StateMachine<State, Event, Output>, alphabet: [String]? = nil,
    events: [Event]? = nil
  ) {
    let alphabet = alphabet ?? machine.alphabet
    self.name = name
    initial = machine.initial
    self.alphabet = alphabet
    self.events = events ?? alphabet.compactMap { EnumCases<Event>.bareValue(named: $0) }
    reduce = machine.step
    hasOutput = { machine.output($0) != nil }
  }
}

/// A ``Component`` whose state and event types are erased.
public struct AnyComponent: Sendable {
  /// The name by which composites refer to the component.
  public let name: String
  /// The names of the events that the component accepts in at least one state.
  public let alphabet: [String]
  let initial: ComponentState
  let events: [any MachineEvent]
  let readEvent: @Sendable (SynchronizedEvent) throws(SynchronizedEventError) -> any MachineEvent
  let reduce: @Sendable (ComponentState, any MachineEvent) -> Reduction<ComponentState>?
  let hasOutput: @Sendable (ComponentState) -> Bool

  /// Erases the types of a component.
  public init<State, Event>(_ component: Component<State, Event>) {
    name = component.name
    alphabet = component.alphabet
    initial = ComponentState(component.initial)
    events = component.events
    readEvent = { (event) throws(SynchronizedEventError) in try event.event(as: Event.self) }
    reduce = { state, event in
      guard let state = state.value as? State, let event = event as? Event else { return nil }
      return switch component.reduce(state, event) {
      case .next(let next): .next(ComponentState(next))
      case .stays(let next): .stays(ComponentState(next))
      case .ignored: .ignored
      case .refused(let refusal): .refused(refusal)
      case .suspended(let run):
        .suspended(
          SuspendedTransition(
            within: run.limit, target: { try await run.target().map { ComponentState($0) } }))
      }
    }
    hasOutput = { state in (state.value as? State).map(component.hasOutput) ?? false }
  }
}

/// The state of one component, with its type erased. Two states are equal if their JSON is equal.
public struct ComponentState: Hashable, Sendable, CustomStringConvertible {
  /// The state itself.
  public let value: any MachineState
  private let cachedKey: String?

  /// Creates a state with its type erased.
  /// - Parameter isCompared: Whether the state will be compared or hashed often. If so, the JSON
  ///   for the comparison is computed now.
  init(_ value: some MachineState, isCompared: Bool = true) {
    self.value = value
    cachedKey = isCompared ? Self.identityKey(of: value) : nil
  }

  private var identityKey: String { cachedKey ?? Self.identityKey(of: value) }

  private static func identityKey(of value: some MachineState) -> String {
    if let tag = EnumCases.tag(of: value), let name = EnumCases.name(of: value),
      type(of: value).isBare(tag)
    {
      return name
    }
    // A state that cannot be encoded is identified by its Swift description.
    return (try? JSONValue(encoding: value).text) ?? "\(value)"
  }

  /// Compares the states by their JSON.
  public static func == (left: Self, right: Self) -> Bool { left.identityKey == right.identityKey }

  /// Hashes the JSON.
  public func hash(into hasher: inout Hasher) { hasher.combine(identityKey) }

  /// The state as JSON.
  public var json: JSONValue {
    (try? JSONValue(encoding: value)) ?? .string("\(value)")
  }

  /// The Swift description of the state.
  public var description: String { "\(value)" }
}

extension MachineState {
  fileprivate static func isBare(_ tag: Int) -> Bool {
    EnumCases<Self>.bareValue(tag: tag) != nil
  }
}
