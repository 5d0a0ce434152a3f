/// What the screens of a coordinator ask for other screens.
@MainActor
public struct CoordinatorRouter<Coordinator: NavigationCoordinatable> {
  private weak var coordinator: Coordinator?

  init(_ coordinator: Coordinator) { self.coordinator = coordinator }

  /// Makes the screen of a route and shows it, as the route says.
  /// - Throws: ``NavigationError``, where what is shown does not allow it, or the coordinator is gone.
  @discardableResult
  public func route<Screen>(
    to route: KeyPath<Coordinator, CoordinatorTransition<Coordinator, Void, Screen>>
  ) throws(NavigationError) -> Screen { try self.route(to: route, ()) }

  /// Makes the screen of a route of what it is given, and shows it, as the route says.
  /// - Throws: ``NavigationError``, where what is shown does not allow it, or the coordinator is gone.
  @discardableResult
  public func route<Input, Screen>(
    to route: KeyPath<Coordinator, CoordinatorTransition<Coordinator, Input, Screen>>,
    _ input: Input
  ) throws(NavigationError) -> Screen {
    let coordinator = try present()
    return try coordinator.stack.route(coordinator[keyPath: route], input, of: coordinator)
  }

  /// Makes the screen of a root, or of another route, and shows it in place of all that are there.
  /// - Throws: ``NavigationError``, where the coordinator is gone.
  @discardableResult
  public func root<Screen>(
    _ root: KeyPath<Coordinator, CoordinatorTransition<Coordinator, Void, Screen>>
  ) throws(NavigationError) -> Screen {
    let coordinator = try present()
    let transition = CoordinatorTransition(
      presentation: nil, make: coordinator[keyPath: root].make)
    return try coordinator.stack.route(transition, (), of: coordinator)
  }

  /// Takes the topmost screen away.
  /// - Throws: ``NavigationError``, where the root is shown, or a sheet.
  public func popLast() throws(NavigationError) { try present().stack.pop() }

  /// Takes all screens but the root away.
  /// - Throws: ``NavigationError``, where the root is shown, or a sheet.
  public func popToRoot() throws(NavigationError) { try present().stack.popToRoot() }

  /// Takes the sheet away.
  /// - Throws: ``NavigationError``, where there is none.
  public func dismiss() throws(NavigationError) { try present().stack.dismiss() }

  /// Takes the coordinator itself away, with all its screens, where it is a screen of another one.
  /// - Throws: ``NavigationError``, where it is none, is a root, or is covered by a sheet.
  public func dismissCoordinator() throws(NavigationError) {
    guard let leave = try present().stack.leave else { throw .atRoot }
    try leave()
  }

  private func present() throws(NavigationError) -> Coordinator {
    guard let coordinator else { throw .notShown("\(Coordinator.self)") }
    return coordinator
  }
}

/// Finds the router of a coordinator by its type, for what is not given one.
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

  /// The router of the coordinator of this type that was shown last; `nil` where there is none.
  public func retrieve<Coordinator: NavigationCoordinatable>() -> CoordinatorRouter<Coordinator>? {
    (entries[ObjectIdentifier(Coordinator.self)]?.coordinator as? Coordinator)?.router
  }

  func store<Coordinator: NavigationCoordinatable>(_ coordinator: Coordinator) {
    entries[ObjectIdentifier(Coordinator.self)] = Entry(coordinator: coordinator)
  }
}
