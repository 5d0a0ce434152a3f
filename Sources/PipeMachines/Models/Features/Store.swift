import Observation

/// Holds the state of a feature and takes its actions, one after the other in the order sent.
///
/// An action that waits for something keeps those after it waiting, so that none starts from a state
/// that another is about to replace.
///
/// ```swift
/// let store = Store(feature: CounterFeature(dependency: service), initialState: .init())
/// await store.send(action: .increment)
/// ```
///
/// It is observable: what reads ``state`` within `withObservationTracking`, as views do, is told when it
/// changes.
@MainActor
@Observable
public final class Store<Feature: FeatureType> {
  @ObservationIgnored private let scope: any StoreScope<Feature>
  @ObservationIgnored private var following: Task<Void, Never>?
  /// What is observed in place of the state, which is elsewhere.
  private var changes = 0

  /// Makes a store.
  public convenience init(feature: Feature, initialState state: Feature.State) {
    self.init(
      PartScope<Feature.State, Feature>(
        root: StoreRoot(state), feature: feature, part: \.self, above: { _ in nil }))
  }

  private init(_ scope: any StoreScope<Feature>) {
    self.scope = scope
    let changes = scope.changes()
    following = Task { [weak self] in
      for await _ in changes {
        guard let self else { return }
        self.changes += 1
      }
    }
  }

  isolated deinit { following?.cancel() }

  /// The state, with what has been set. Setting it is no action: the feature is not asked.
  ///
  /// What is set while an action is being taken is there at once. The action goes on from the state that
  /// it began with; what was set is then set again in the state that it leads to. That is all of the
  /// state; to set a part and keep what the action does to the others, use ``binding(for:action:)``.
  public var state: Feature.State {
    get {
      _ = changes
      return scope.state
    }
    set { scope.edit { $0 = newValue } }
  }

  /// Has the feature take an action after those sent before it, and does not wait for that.
  public func send(action: Feature.Action) { scope.post(action) }

  /// Has the feature take an action after those sent before it; returns once ``state`` is the one it
  /// leads to.
  public func send(action: Feature.Action) async { await scope.send(action) }

  /// A part of the state for a view that reads it and sets it: setting it to another value changes
  /// ``state`` at once, and sends `.binding(action)`, which the feature takes after the actions sent before.
  public func binding<Value: Equatable & Sendable>(
    for keyPath: WritableKeyPath<Feature.State, Value> & Sendable,
    action: Feature.Action.BindingAction
  ) -> ValueBinding<Value> where Feature.Action: BindableAction {
    ValueBinding(
      get: { self.state[keyPath: keyPath] },
      set: { value in
        guard self.state[keyPath: keyPath] != value else { return }
        self.scope.edit { $0[keyPath: keyPath] = value }
        self.send(action: .binding(action))
      },
      timers: ViewTimers())
  }

  /// A store for a part of the state, with a feature of its own.
  ///
  /// Its actions are taken by its feature, which changes its part; then the parent's feature takes what
  /// `action` makes of them. Both are one step: nobody sees the child moved and the parent not.
  ///
  /// Parts may overlap, and one part may have several features: all actions on the whole state are taken
  /// one after the other, each from what the last one left.
  /// - Parameters:
  ///   - state: The part.
  ///   - action: What the parent takes for an action of the child.
  public func scope<Scoped: FeatureType>(
    state keyPath: WritableKeyPath<Feature.State, Scoped.State> & Sendable,
    action: @escaping @Sendable (Scoped.Action) -> Feature.Action, feature: Scoped
  ) -> Store<Scoped> {
    Store<Scoped>(scope.scoped(keyPath, action, feature))
  }
}

/// A feature's part of the one state of a store, whatever the type of that.
@MainActor
protocol StoreScope<Feature>: AnyObject {
  associatedtype Feature: FeatureType

  var state: Feature.State { get }

  /// Changes the state at once, and again where an action that is being taken leads elsewhere.
  func edit(_ change: @escaping @Sendable (inout Feature.State) -> Void)

  /// Takes an action after those sent before it.
  func post(_ action: Feature.Action)
  func send(_ action: Feature.Action) async

  /// The changes of the state from now on.
  func changes() -> StatePublisher<Void>

  func scoped<Scoped: FeatureType>(
    _ part: WritableKeyPath<Feature.State, Scoped.State> & Sendable,
    _ action: @escaping @Sendable (Scoped.Action) -> Feature.Action, _ feature: Scoped
  ) -> any StoreScope<Scoped>
}

/// A feature's part of the state of a root.
@MainActor
final class PartScope<Root: Sendable, Feature: FeatureType>: StoreScope {
  typealias Step = @MainActor @Sendable (Root) async -> Root

  private let root: StoreRoot<Root>
  private let feature: Feature
  private let part: WritableKeyPath<Root, Feature.State> & Sendable
  /// What the features above make of an action, once this one has taken it.
  private let above: @Sendable (Feature.Action) -> Step?

  init(
    root: StoreRoot<Root>, feature: Feature,
    part: WritableKeyPath<Root, Feature.State> & Sendable,
    above: @escaping @Sendable (Feature.Action) -> Step?
  ) {
    self.root = root
    self.feature = feature
    self.part = part
    self.above = above
  }

  var state: Feature.State { root.state[keyPath: part] }

  func edit(_ change: @escaping @Sendable (inout Feature.State) -> Void) {
    root.edit { [part] in change(&$0[keyPath: part]) }
  }

  func post(_ action: Feature.Action) { root.post(step(action), Self.name(of: action)) }
  func send(_ action: Feature.Action) async { await root.send(step(action), Self.name(of: action)) }

  private static func name(of action: Feature.Action) -> @Sendable () -> String {
    { EnumCases<Feature.Action>.name(of: action) ?? "\(action)" }
  }
  func changes() -> StatePublisher<Void> { root.changes }

  private func step(_ action: Feature.Action) -> Step {
    Self.step(feature, part, above)(action)
  }

  private static func step(
    _ feature: Feature, _ part: WritableKeyPath<Root, Feature.State> & Sendable,
    _ above: @escaping @Sendable (Feature.Action) -> Step?
  ) -> @Sendable (Feature.Action) -> Step {
    { action in
      { root in
        var next = root
        next[keyPath: part] = await feature.reduce(state: root[keyPath: part], action: action)
        return await above(action)?(next) ?? next
      }
    }
  }

  func scoped<Scoped: FeatureType>(
    _ part: WritableKeyPath<Feature.State, Scoped.State> & Sendable,
    _ action: @escaping @Sendable (Scoped.Action) -> Feature.Action, _ feature: Scoped
  ) -> any StoreScope<Scoped> {
    let own = Self.step(self.feature, self.part, above)
    let whole = self.part.appending(path: part)
    // Of two that are Sendable.
    nonisolated(unsafe) let sendable =
      unsafeDowncast(whole, to: WritableKeyPath<Root, Scoped.State>.self)
    return PartScope<Root, Scoped>(
      root: root, feature: feature, part: sendablePath(sendable), above: { own(action($0)) })
  }
}

/// Says of a key path that is made of such as are `Sendable` that it is so too, which Swift forgets
/// where they are joined.
private func sendablePath<Root, Value>(
  _ path: WritableKeyPath<Root, Value>
) -> WritableKeyPath<Root, Value> & Sendable {
  unsafeBitCast(path, to: (WritableKeyPath<Root, Value> & Sendable).self)
}
