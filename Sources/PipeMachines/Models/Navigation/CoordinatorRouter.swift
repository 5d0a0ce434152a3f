/// The interface through which the screens of a coordinator show other screens.
@MainActor
public struct CoordinatorRouter<Coordinator: NavigationCoordinatable> {
  private weak var coordinator: Coordinator?

  init(_ coordinator: Coordinator) { self.coordinator = coordinator }

  /// Makes the screen of a route and presents it as the route declares.
  /// - Throws: ``NavigationError`` if the current screens do not allow the change, or if the
  ///   coordinator no longer exists.
  @discardableResult
  public func route<Screen>(
    to route: KeyPath<Coordinator, CoordinatorTransition<Coordinator, Void, Screen>>
  ) throws(NavigationError) -> Screen { try self.route(to: route, ()) }

  /// Makes the screen of a route from an input and presents it as the route declares.
  /// - Throws: ``NavigationError`` if the current screens do not allow the change, or if the
  ///   coordinator no longer exists.
  @discardableResult
  public func route<Input, Screen>(
    to route: KeyPath<Coordinator, CoordinatorTransition<Coordinator, Input, Screen>>,
    _ input: Input
  ) throws(NavigationError) -> Screen {
    let coordinator = try requireCoordinator()
    return try coordinator.stack.route(coordinator[keyPath: route], input, of: coordinator)
  }

  /// Makes the screen of a root, or of another route, and replaces all current screens with the new
  /// screen.
  /// - Throws: ``NavigationError`` if the coordinator no longer exists.
  @discardableResult
  public func root<Screen>(
    _ root: KeyPath<Coordinator, CoordinatorTransition<Coordinator, Void, Screen>>
  ) throws(NavigationError) -> Screen {
    let coordinator = try requireCoordinator()
    let transition = CoordinatorTransition(
      presentation: nil, make: coordinator[keyPath: root].make)
    return try coordinator.stack.route(transition, (), of: coordinator)
  }

  /// Pops the topmost screen.
  /// - Throws: ``NavigationError`` if the root or a sheet is shown.
  public func popLast() throws(NavigationError) { try requireCoordinator().stack.pop() }

  /// Pops all screens except the root.
  /// - Throws: ``NavigationError`` if the root or a sheet is shown.
  public func popToRoot() throws(NavigationError) { try requireCoordinator().stack.popToRoot() }

  /// Dismisses the sheet.
  /// - Throws: ``NavigationError`` if no sheet is shown.
  public func dismiss() throws(NavigationError) { try requireCoordinator().stack.dismiss() }

  /// Removes the coordinator itself, with all its screens, from the coordinator that shows it.
  /// - Throws: ``NavigationError`` if the coordinator is not a screen of another coordinator, if it
  ///   is the root screen of that coordinator, or if it is covered by a sheet.
  public func dismissCoordinator() throws(NavigationError) {
    guard let removeFromParent = try requireCoordinator().stack.removeFromParent else {
      throw .atRoot
    }
    try removeFromParent()
  }

  private func requireCoordinator() throws(NavigationError) -> Coordinator {
    guard let coordinator else { throw .notShown("\(Coordinator.self)") }
    return coordinator
  }
}

/// Finds the router of a coordinator by the coordinator's type, for code without a reference to the
/// coordinator.
///
/// ```swift
/// var mainRouter: MainCoordinator.Router? = RouterStore.shared.retrieve()
/// ```
@MainActor
public final class RouterStore {
  /// The store of this process.
  public static let shared = RouterStore()

  private struct Entry {
    weak var coordinator: (any NavigationCoordinatable)?
  }

  private var entries: [ObjectIdentifier: Entry] = [:]

  private init() {}

  /// Returns the router of a coordinator of this type. If several coordinators have this type,
  /// returns the router of the coordinator that was the last to show its first screen. Returns
  /// `nil` if that coordinator no longer exists.
  public func retrieve<Coordinator: NavigationCoordinatable>() -> CoordinatorRouter<Coordinator>? {
    (entries[ObjectIdentifier(Coordinator.self)]?.coordinator as? Coordinator)?.router
  }

  func store<Coordinator: NavigationCoordinatable>(_ coordinator: Coordinator) {
    entries[ObjectIdentifier(Coordinator.self)] = Entry(coordinator: coordinator)
  }
}
