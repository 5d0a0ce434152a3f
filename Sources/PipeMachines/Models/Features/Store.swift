import Observation

/// A store that holds the state of a feature and processes its actions one at a time, in the order
/// in which they were sent.
///
/// While an action waits, for example for a service, later actions wait, too. So no action starts
/// from a state that another action is about to replace.
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
  private var changeCount = 0

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
        self.changeCount += 1
      }
    }
  }

  isolated deinit { followTask?.cancel() }

  /// The state, including all edits. Setting the state is not an action, so the feature does not
  /// process it.
  ///
  /// If the state is set while an action runs, the new state is visible immediately, but the action
  /// continues with the state in which it began. When the action ends, the state that was set
  /// replaces the entire state that the action has produced. To set one part and keep the action's
  /// changes to other parts, use ``binding(for:action:)``.
  public var state: Feature.State {
    get {
      _ = changeCount
      return scope.state
    }
    set { scope.edit { $0 = newValue } }
  }

  /// Queues an action behind the actions sent before it, without waiting.
  public func send(action: Feature.Action) { scope.post(action) }

  /// Queues an action behind the actions sent before it. Returns once ``state`` is the state that
  /// the action produces.
  public func send(action: Feature.Action) async { await scope.send(action) }

  /// Returns a binding to a part of the state. Setting a different value changes ``state``
  /// immediately, and sends `.binding(action)`. The feature processes this action after the actions
  /// sent before it.
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

  /// Returns a store for a part of the state. The part has its own feature, the child feature.
  ///
  /// The child's feature processes each of the child's actions, and changes the part. Then the
  /// parent's feature processes the action that `action` makes from the child's action. The two
  /// changes are one step, so the child's change is never visible without the parent's change.
  ///
  /// Parts can overlap, and a part can have several features. All actions on the whole state are
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

/// A feature's part of a store's state. The protocol does not depend on the type of the store's
/// entire state.
@MainActor
protocol StoreScope<Feature>: AnyObject {
  associatedtype Feature: FeatureType

  var state: Feature.State { get }

  /// Changes the state immediately. If an action is running, the same change is also made to the
  /// state that the action produces.
  func edit(_ change: @escaping @Sendable (inout Feature.State) -> Void)

  /// Queues an action behind the actions sent before it.
  func post(_ action: Feature.Action)
  func send(_ action: Feature.Action) async

  /// Returns a publisher of empty values: one value at the beginning of each subscription, and one
  /// value for each change of the state.
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
  private let partPath: WritableKeyPath<Root, Feature.State> & Sendable
  /// Returns the parent features' step, which follows this feature's step for an action; `nil` if
  /// the feature has no parent.
  private let parentStep: @Sendable (Feature.Action) -> Step?

  init(
    root: StoreRoot<Root>, feature: Feature,
    part: WritableKeyPath<Root, Feature.State> & Sendable,
    parentStep: @escaping @Sendable (Feature.Action) -> Step?
  ) {
    self.root = root
    self.feature = feature
    self.partPath = part
    self.parentStep = parentStep
  }

  var state: Feature.State { root.state[keyPath: partPath] }

  func edit(_ change: @escaping @Sendable (inout Feature.State) -> Void) {
    root.edit { [partPath] in change(&$0[keyPath: partPath]) }
  }

  func post(_ action: Feature.Action) { root.post(makeStep(action), Self.name(of: action)) }
  func send(_ action: Feature.Action) async {
    await root.send(makeStep(action), Self.name(of: action))
  }

  private static func name(of action: Feature.Action) -> @Sendable () -> String {
    { EnumCases<Feature.Action>.name(of: action) ?? "\(action)" }
  }
  func changes() -> StatePublisher<Void> { root.changes }

  private func makeStep(_ action: Feature.Action) -> Step {
    Self.makeStep(feature, partPath, parentStep)(action)
  }

  private static func makeStep(
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
    let own = Self.makeStep(self.feature, self.partPath, parentStep)
    let whole = self.partPath.appending(path: part)
    // Safe, because both parts of the joined key path are `Sendable`.
    nonisolated(unsafe) let sendable =
      unsafeDowncast(whole, to: WritableKeyPath<Root, Scoped.State>.self)
    return PartScope<Root, Scoped>(
      root: root, feature: feature, part: sendablePath(sendable), parentStep: { own(action($0)) })
  }
}

/// Returns the key path with a `Sendable` type. The caller has joined the key path from two
/// `Sendable` key paths, but the type of a joined key path is not `Sendable` in Swift.
private func sendablePath<Root, Value>(
  _ path: WritableKeyPath<Root, Value>
) -> WritableKeyPath<Root, Value> & Sendable {
  unsafeBitCast(path, to: (WritableKeyPath<Root, Value> & Sendable).self)
}
