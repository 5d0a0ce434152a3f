/// A feature as a machine, so that a node can host it; its actions are the events.
///
/// ```swift
/// enum Counter: FeatureMachine {
///   static let initialState = CounterFeature.State()
///   static func feature(_ parameters: NoParameters) -> CounterFeature { … }
/// }
/// ```
///
/// A child feature that runs as a node of its own reaches its parent's node through a pipe:
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

  /// The state of a node that has never run.
  static func initialState(_ parameters: Parameters) -> Feature.State

  /// Makes the feature with what it depends on.
  static func feature(_ parameters: Parameters) -> Feature

  /// The actions for which the feature acts on nothing but its state, so that nodes can take them together
  /// with others. Default: none.
  static var selfContained: SelfContainedEvents<Feature.Action> { get }
}

extension FeatureMachine {
  /// No action.
  public static var selfContained: SelfContainedEvents<Feature.Action> { .none }

  /// The feature as a function. Every action is taken; it may take its time, and the next one waits.
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
  /// Reflects a feature that is a node of its own into the state of its parent, as
  /// ``Store/scope(state:action:feature:)`` does in one process.
  ///
  /// Each state that the child enters, the first one included, goes into the pipe, and behind it the
  /// action that led there. The parent takes them as its next actions, once and in this order, also
  /// where either process dies on the way. So its copy is as old as what is in the pipe, and right as
  /// soon as the pipe is empty. Between the two actions the parent has the child's new state, and has
  /// not heard of its action.
  ///
  /// The part belongs to the child: what the parent sets there, the child's next state replaces.
  /// - Parameters:
  ///   - parent: Leads to the parent's node.
  ///   - state: What the parent takes for a state of the child; its feature puts it into its own state.
  ///   - action: What the parent takes for an action of the child.
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
/// What a feature depends on is a property of it, so that a test gives it something else.
public protocol FeatureType: Sendable {
  /// The states.
  associatedtype State: Sendable
  /// What can be done.
  associatedtype Action: Sendable

  /// The state that the action leads to.
  @MainActor func reduce(state: State, action: Action) async -> State
}

/// An action that can say that a view has set a part of the state.
public protocol BindableAction {
  /// Which part.
  associatedtype BindingAction: Sendable

  /// The action that stands for it.
  static func binding(_ action: BindingAction) -> Self
}

/// What shows a store: a view.
@MainActor
public protocol Storable {
  /// The feature that it shows.
  associatedtype Feature: FeatureType

  /// Where its state is, and where its actions go.
  var store: Store<Feature> { get }
}

/// A state as it is shown: with the edits that wait behind an action, which has not seen them.
///
/// Each state that an action leads to is shown with them, too, until the edits themselves are taken.
struct EditedState<State: Sendable>: Sendable {
  typealias Change = @Sendable (inout State) -> Void

  /// What is shown.
  private(set) var value: State
  private var waiting: [(number: Int, change: Change)] = []

  init(_ value: State) { self.value = value }

  /// An edit cannot be taken at once.
  mutating func edit(number: Int, _ change: @escaping Change) {
    waiting.append((number, change))
    change(&value)
  }

  /// Another state has been entered, which has the edits up to this one.
  mutating func enter(_ entered: State, edit: Int) {
    waiting.removeAll { $0.number <= edit }
    value = entered
    for (_, change) in waiting { change(&value) }
  }
}
