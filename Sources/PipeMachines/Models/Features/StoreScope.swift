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
