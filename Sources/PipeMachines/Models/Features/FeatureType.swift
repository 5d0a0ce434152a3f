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
