import Observation

/// The screens that a coordinator has made and that are on its stack.
///
/// The class is observable: code that reads ``NavigationCoordinatable/shown`` within
/// `withObservationTracking`, as views do, is notified when another screen is shown.
@MainActor
@Observable
public final class CoordinatorStack<Coordinator: NavigationCoordinatable> {
  /// The route of a made screen, so that the rules of a stack of routes apply.
  private struct Place: RouteType, CustomStringConvertible {
    let number: Int
    /// The type of the screen.
    let description: String
  }

  private var places: RouteStack<Place>
  @ObservationIgnored private var made: [Place: Any] = [:]
  @ObservationIgnored private var last = 0
  @ObservationIgnored private let initial: @MainActor (Coordinator) -> Any
  /// Removes this coordinator from the coordinator that shows it as a screen.
  @ObservationIgnored var leave: (@MainActor () throws(NavigationError) -> Void)?

  /// Makes a stack. Its root screen is made on first access.
  public init<Screen>(
    initial root: KeyPath<Coordinator, CoordinatorTransition<Coordinator, Void, Screen>>
  ) {
    places = RouteStack(root: Place(number: 0, description: "\(Screen.self)"))
    initial = { $0[keyPath: root].make($0, ()) }
  }

  // MARK: Presented routes

  func shown(of coordinator: Coordinator) -> Any { screen(places.shown, of: coordinator) }

  func screens(of coordinator: Coordinator) -> [Any] {
    places.path.map { screen($0, of: coordinator) }
  }

  func sheet(of coordinator: Coordinator) -> Any? {
    places.sheet.map { screen($0, of: coordinator) }
  }

  /// Returns the screen of a place. Only the initial root is made on access.
  private func screen(_ place: Place, of coordinator: Coordinator) -> Any {
    if let screen = made[place] { return screen }
    RouterStore.shared.store(coordinator)
    return keep(initial(coordinator), at: place)
  }

  private func keep<Screen>(_ screen: Screen, at place: Place) -> Screen {
    made[place] = screen
    if let nested = screen as? any NavigationCoordinatable {
      nested.start { [weak self] () throws(NavigationError) in try self?.remove(place) }
    }
    return screen
  }

  // MARK: Changes

  /// Makes the screen of a route, and shows it.
  func route<Input, Screen>(
    _ transition: CoordinatorTransition<Coordinator, Input, Screen>, _ input: Input,
    of coordinator: Coordinator
  ) throws(NavigationError) -> Screen {
    _ = shown(of: coordinator)
    last += 1
    let place = Place(number: last, description: "\(Screen.self)")
    // Check before the screen is made.
    _ = try showing(place, transition.presentation)
    let screen = keep(transition.make(coordinator, input), at: place)
    // Check again, because making the screen may have changed the stack.
    show(try showing(place, transition.presentation))
    return screen
  }

  private func showing(
    _ place: Place, _ presentation: PresentationType?
  ) throws(NavigationError) -> RouteStack<Place> {
    var next = places
    switch presentation {
    case .push: try next.push(place)
    case .modal: try next.present(place)
    case nil: next = RouteStack(root: place)
    }
    return next
  }

  func pop() throws(NavigationError) {
    try change { places throws(NavigationError) in try places.pop() }
  }

  func popToRoot() throws(NavigationError) {
    try change { places throws(NavigationError) in try places.popToRoot() }
  }

  func dismiss() throws(NavigationError) {
    try change { places throws(NavigationError) in try places.dismiss() }
  }

  /// Removes a screen and all screens above it.
  private func remove(_ place: Place) throws(NavigationError) {
    guard place != places.root else { throw .atRoot }
    try change { places throws(NavigationError) in
      if places.sheet == place { return try places.dismiss() }
      while places.path.contains(place) { try places.pop() }
    }
  }

  private func change(
    _ change: (inout RouteStack<Place>) throws(NavigationError) -> Void
  ) throws(NavigationError) {
    var next = places
    try change(&next)
    show(next)
  }

  private func show(_ next: RouteStack<Place>) {
    let kept = Set(next.path + (next.sheet.map { [$0] } ?? []))
    made = made.filter { kept.contains($0.key) }
    places = next
  }
}
