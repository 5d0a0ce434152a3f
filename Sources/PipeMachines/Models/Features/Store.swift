import Observation

/// A store that holds the state of a feature and processes its actions one at a time, in the order
/// in which they were sent.
///
/// An action that waits for something blocks later actions, so that no action starts from a state
/// that another action is about to replace.
///
/// ```swift
/// let store = Store(feature: CounterFeature(dependency: service), initialState: .init())
/// await store.send(action: .increment)
/// ```
///
/// The class is observable: code that reads ``state`` within `withObservationTracking`, as views
/// do, is notified when the state changes.
@MainActor
@Observable
public final class Store<Feature: FeatureType> {
  @ObservationIgnored private let scope: any StoreScope<Feature>
  @ObservationIgnored private var followTask: Task<Void, Never>?
  /// A counter that views observe instead of the state, because the state is stored in the scope.
  private var changes = 0

  /// Makes a store.
  public convenience init(feature: Feature, initialState state: Feature.State) {
    self.init(
      PartScope<Feature.State, Feature>(
        root: StoreRoot(state), feature: feature, part: \.self, parentStep: { _ in nil }))
  }

  private init(_ scope: any StoreScope<Feature>) {
    self.scope = scope
    let changes = scope.changes()
    followTask = Task { [weak self] in
      for await _ in changes {
        guard let self else { return }
        self.changes += 1
      }
    }
  }

  isolated deinit { followTask?.cancel() }

  /// The state, including all edits. Setting the state is not an action, so the feature does not
  /// process it.
  ///
  /// A state that is set during an action is visible at once. The action continues from the state
  /// in which it began. Afterwards, the state that was set replaces the entire state that the
  /// action has produced. To set one part and keep the action's changes to other parts, use
  /// ``binding(for:action:)``.
  public var state: Feature.State {
    get {
      _ = changes
      return scope.state
    }
    set { scope.edit { $0 = newValue } }
  }

  /// Queues an action behind the actions sent before it, without waiting.
  public func send(action: Feature.Action) { scope.post(action) }

  /// Queues an action behind the actions sent before it. Returns once ``state`` is the state that
  /// the action produces.
  public func send(action: Feature.Action) async { await scope.send(action) }

  /// Returns a binding to a part of the state. Setting a different value changes ``state`` at once.
  /// It also sends `.binding(action)`, which the feature processes after the actions sent before.
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

  /// Returns a store for a part of the state. The part has its own feature, the child.
  ///
  /// The child's feature processes the child's actions, and changes the part. Then the parent's
  /// feature processes the action that `action` makes from the child's action. Both are one step,
  /// so the child's change is never visible without the parent's.
  ///
  /// Parts may overlap, and one part may have several features. All actions on the whole state are
  /// processed one at a time, each from the state that the previous action produced.
  /// - Parameters:
  ///   - state: The key path of the part.
  ///   - action: Makes the parent's action for an action of the child.
  public func scope<Scoped: FeatureType>(
    state keyPath: WritableKeyPath<Feature.State, Scoped.State> & Sendable,
    action: @escaping @Sendable (Scoped.Action) -> Feature.Action, feature: Scoped
  ) -> Store<Scoped> {
    Store<Scoped>(scope.scoped(keyPath, action, feature))
  }
}

/// A feature's part of the state of a store, with the type of the store's entire state erased.
@MainActor
protocol StoreScope<Feature>: AnyObject {
  associatedtype Feature: FeatureType

  var state: Feature.State { get }

  /// Changes the state at once. If an action is running, also changes the state that the action
  /// produces.
  func edit(_ change: @escaping @Sendable (inout Feature.State) -> Void)

  /// Queues an action behind the actions sent before it.
  func post(_ action: Feature.Action)
  func send(_ action: Feature.Action) async

  /// Returns a publisher of the state's changes, beginning with this call.
  func changes() -> StatePublisher<Void>

  func scoped<Scoped: FeatureType>(
    _ part: WritableKeyPath<Feature.State, Scoped.State> & Sendable,
    _ action: @escaping @Sendable (Scoped.Action) -> Feature.Action, _ feature: Scoped
  ) -> any StoreScope<Scoped>
}

/// A feature's part of the state in a ``StoreRoot``.
@MainActor
final class PartScope<Root: Sendable, Feature: FeatureType>: StoreScope {
  typealias Step = @MainActor @Sendable (Root) async -> Root

  private let root: StoreRoot<Root>
  private let feature: Feature
  private let part: WritableKeyPath<Root, Feature.State> & Sendable
  /// Returns the step of the parent features for an action, after this feature has processed it.
  private let parentStep: @Sendable (Feature.Action) -> Step?

  init(
    root: StoreRoot<Root>, feature: Feature,
    part: WritableKeyPath<Root, Feature.State> & Sendable,
    parentStep: @escaping @Sendable (Feature.Action) -> Step?
  ) {
    self.root = root
    self.feature = feature
    self.part = part
    self.parentStep = parentStep
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
    Self.step(feature, part, parentStep)(action)
  }

  private static func step(
    _ feature: Feature, _ part: WritableKeyPath<Root, Feature.State> & Sendable,
    _ parentStep: @escaping @Sendable (Feature.Action) -> Step?
  ) -> @Sendable (Feature.Action) -> Step {
    { action in
      { root in
        var next = root
        next[keyPath: part] = await feature.reduce(state: root[keyPath: part], action: action)
        return await parentStep(action)?(next) ?? next
      }
    }
  }

  func scoped<Scoped: FeatureType>(
    _ part: WritableKeyPath<Feature.State, Scoped.State> & Sendable,
    _ action: @escaping @Sendable (Scoped.Action) -> Feature.Action, _ feature: Scoped
  ) -> any StoreScope<Scoped> {
    let own = Self.step(self.feature, self.part, parentStep)
    let whole = self.part.appending(path: part)
    // The key path is joined from two key paths that are `Sendable`.
    nonisolated(unsafe) let sendable =
      unsafeDowncast(whole, to: WritableKeyPath<Root, Scoped.State>.self)
    return PartScope<Root, Scoped>(
      root: root, feature: feature, part: sendablePath(sendable), parentStep: { own(action($0)) })
  }
}

/// Marks a key path as `Sendable`, if it was joined from `Sendable` key paths. Swift loses the
/// conformance when it joins them.
private func sendablePath<Root, Value>(
  _ path: WritableKeyPath<Root, Value>
) -> WritableKeyPath<Root, Value> & Sendable {
  unsafeBitCast(path, to: (WritableKeyPath<Root, Value> & Sendable).self)
}
