/// A feature as a machine that a node can host. The feature's actions are the machine's events.
///
/// ```swift
/// enum Counter: FeatureMachine {
///   static let initialState = CounterFeature.State()
///   static func feature(_ parameters: NoParameters) -> CounterFeature { … }
/// }
/// ```
///
/// A child feature that runs as a separate node is connected to its parent's node through a pipe:
///
/// ```swift
/// static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<State, Event, Never> {
///   Runtime().scope(
///     to: ports.pipe("parent"), state: ParentFeature.Action.childMoved,
///     action: ParentFeature.Action.child)
/// }
/// ```
public protocol FeatureMachine: Machine
where State == Feature.State, Event == Feature.Action, Output == Never {
  /// The feature.
  associatedtype Feature: FeatureType
  where Feature.State: MachineState, Feature.Action: MachineEvent

  /// Returns the initial state of a node that has never run.
  static func initialState(_ parameters: Parameters) -> Feature.State

  /// Makes the feature with its dependencies.
  static func feature(_ parameters: Parameters) -> Feature

  /// The actions for which the feature affects only its own state. These actions can be
  /// synchronized events of several nodes. Default: none.
  static var selfContained: SelfContainedEvents<Feature.Action> { get }
}

extension FeatureMachine {
  /// The default: no actions.
  public static var selfContained: SelfContainedEvents<Feature.Action> { .none }

  /// Returns the machine of the feature. The machine accepts every action. While it processes an
  /// action, the next action waits.
  public static func stateMachine(
    _ parameters: Parameters
  ) -> StateMachine<Feature.State, Feature.Action, Never> {
    let feature = feature(parameters)
    return StateMachine(
      initial: initialState(parameters),
      awaiting: { state, action in await feature.reduce(state: state, action: action) },
      selfContained: selfContained)
  }
}

extension Runtime {
  /// Connects this child feature, which runs as a separate node, to the node of its parent feature.
  /// The parent's state contains a copy of the child's state. For features in the same process, use
  /// ``Store/scope(state:action:feature:)``.
  ///
  /// On each entry into a state, including the initial state, the child sends the state into the
  /// pipe, followed by the action that led to the state. The parent processes the state and the
  /// action as two of its own actions, exactly once and in this order, even if one of the processes
  /// dies in between. The parent's copy is therefore up to date when the pipe is empty; before
  /// that, the copy lacks the states that are still in the pipe. Between the two actions, the
  /// parent has the child's new state, but has not yet received the child's action.
  ///
  /// The parent should not change the copy: the child's next state overwrites such a change.
  /// - Parameters:
  ///   - parent: The pipe to the parent's node.
  ///   - state: Makes the parent's action for a state of the child. The parent's feature stores the
  ///     child's state in its own state.
  ///   - action: Makes the parent's action for an action of the child.
  public func scope<Parent>(
    to parent: Pipe<Parent>, state: @escaping @Sendable (State) -> Parent,
    action: @escaping @Sendable (Event) -> Parent
  ) -> Self {
    connectAsSender(to: parent, forEachState: state)
      .connectAsSender(to: parent, forEachEvent: action)
  }
}

/// A feature: its state, the actions on it, and the function that makes the next state.
///
/// ```swift
/// struct CounterFeature: FeatureType {
///   struct State: Sendable, Equatable { var count = 0 }
///   enum Action: Sendable { case increment, decrement }
///   let dependency: any CounterDependency
///
///   func reduce(state: State, action: Action) async -> State { … }
/// }
/// ```
///
/// Dependencies of a feature are its properties, so that a test can replace them.
public protocol FeatureType: Sendable {
  /// A state of the feature.
  associatedtype State: Sendable
  /// An action on the state.
  associatedtype Action: Sendable

  /// Returns the next state for an action.
  @MainActor func reduce(state: State, action: Action) async -> State
}

/// An action type with a case for the changes that views make to a part of the state.
public protocol BindableAction {
  /// The type that identifies the changed part of the state.
  associatedtype BindingAction: Sendable

  /// Returns the action for a change of a part of the state.
  static func binding(_ action: BindingAction) -> Self
}

/// A view that shows the state of a store.
@MainActor
public protocol Storable {
  /// The feature that the view shows.
  associatedtype Feature: FeatureType

  /// The store that holds the feature's state and processes its actions.
  var store: Store<Feature> { get }
}

/// The state that views of a store show. This state includes the edits that wait for the end of a
/// running action. The running action does not see these edits.
///
/// Until the store has processed such an edit, the edit is also applied to each new state.
struct EditedState<State: Sendable>: Sendable {
  typealias Change = @Sendable (inout State) -> Void

  /// The state that views show.
  private(set) var value: State
  private var pendingEdits: [(number: Int, change: Change)] = []

  init(_ value: State) { self.value = value }

  /// Applies an edit to the visible state, and queues the edit because the store cannot process it
  /// yet.
  mutating func edit(number: Int, _ change: @escaping Change) {
    pendingEdits.append((number, change))
    change(&value)
  }

  /// Enters a new state, which includes the edits up to the number `edit`.
  mutating func enter(_ entered: State, edit: Int) {
    pendingEdits.removeAll { $0.number <= edit }
    value = entered
    for (_, change) in pendingEdits { change(&value) }
  }
}
