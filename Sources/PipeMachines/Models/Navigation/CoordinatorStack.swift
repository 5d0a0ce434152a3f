import Observation

/// The screens that a coordinator has made and that are on its stack.
///
/// The class is observable: code that reads ``NavigationCoordinatable/shown`` within
/// `withObservationTracking`, as views do, is notified when another screen is shown.
@MainActor
@Observable
public final class CoordinatorStack<Coordinator: NavigationCoordinatable> {
  /// A route that stands for a screen that a coordinator has made, so that the rules of
  /// ``RouteStack`` apply to the screen.
  private struct ScreenSlot: RouteType, CustomStringConvertible {
    let number: Int
    /// The type of the screen.
    let description: String
  }

  private var slots: RouteStack<ScreenSlot>
  @ObservationIgnored private var screensBySlot: [ScreenSlot: Any] = [:]
  @ObservationIgnored private var lastSlotNumber = 0
  @ObservationIgnored private let initial: @MainActor (Coordinator) -> Any
  /// Removes this coordinator from the coordinator that shows it; `nil` if no coordinator shows it.
  @ObservationIgnored var removeFromParent: (@MainActor () throws(NavigationError) -> Void)?

  /// Makes a stack. Its root screen is made on first access.
  public init<Screen>(
    initial root: KeyPath<Coordinator, CoordinatorTransition<Coordinator, Void, Screen>>
  ) {
    slots = RouteStack(root: ScreenSlot(number: 0, description: "\(Screen.self)"))
    initial = { $0[keyPath: root].make($0, ()) }
  }

  // MARK: Reading the screens

  func shown(of coordinator: Coordinator) -> Any { screen(slots.shown, of: coordinator) }

  func screens(of coordinator: Coordinator) -> [Any] {
    slots.path.map { screen($0, of: coordinator) }
  }

  func sheet(of coordinator: Coordinator) -> Any? {
    slots.sheet.map { screen($0, of: coordinator) }
  }

  /// Returns the screen of a slot. Makes the initial root screen when the root slot is read for the
  /// first time.
  private func screen(_ slot: ScreenSlot, of coordinator: Coordinator) -> Any {
    if let screen = screensBySlot[slot] { return screen }
    RouterStore.shared.store(coordinator)
    return keep(initial(coordinator), at: slot)
  }

  private func keep<Screen>(_ screen: Screen, at slot: ScreenSlot) -> Screen {
    screensBySlot[slot] = screen
    if let nested = screen as? any NavigationCoordinatable {
      nested.start { [weak self] () throws(NavigationError) in try self?.remove(slot) }
    }
    return screen
  }

  // MARK: Changing the screens

  /// Makes the screen of a route, and shows it.
  func route<Input, Screen>(
    _ transition: CoordinatorTransition<Coordinator, Input, Screen>, _ input: Input,
    of coordinator: Coordinator
  ) throws(NavigationError) -> Screen {
    _ = shown(of: coordinator)
    lastSlotNumber += 1
    let slot = ScreenSlot(number: lastSlotNumber, description: "\(Screen.self)")
    // Throws an error before the screen is made, if the screen cannot be shown.
    _ = try showing(slot, transition.presentation)
    let screen = keep(transition.make(coordinator, input), at: slot)
    // Checks again whether the screen can be shown, because making the screen may have changed the
    // stack.
    show(try showing(slot, transition.presentation))
    return screen
  }

  private func showing(
    _ slot: ScreenSlot, _ presentation: PresentationType?
  ) throws(NavigationError) -> RouteStack<ScreenSlot> {
    var next = slots
    switch presentation {
    case .push: try next.push(slot)
    case .modal: try next.present(slot)
    case nil: next = RouteStack(root: slot)
    }
    return next
  }

  func pop() throws(NavigationError) {
    try change { slots throws(NavigationError) in try slots.pop() }
  }

  func popToRoot() throws(NavigationError) {
    try change { slots throws(NavigationError) in try slots.popToRoot() }
  }

  func dismiss() throws(NavigationError) {
    try change { slots throws(NavigationError) in try slots.dismiss() }
  }

  /// Removes a screen and all screens above it.
  private func remove(_ slot: ScreenSlot) throws(NavigationError) {
    guard slot != slots.root else { throw .atRoot }
    try change { slots throws(NavigationError) in
      if slots.sheet == slot { return try slots.dismiss() }
      while slots.path.contains(slot) { try slots.pop() }
    }
  }

  private func change(
    _ change: (inout RouteStack<ScreenSlot>) throws(NavigationError) -> Void
  ) throws(NavigationError) {
    var next = slots
    try change(&next)
    show(next)
  }

  private func show(_ next: RouteStack<ScreenSlot>) {
    let kept = Set(next.path + (next.sheet.map { [$0] } ?? []))
    screensBySlot = screensBySlot.filter { kept.contains($0.key) }
    slots = next
  }
}
