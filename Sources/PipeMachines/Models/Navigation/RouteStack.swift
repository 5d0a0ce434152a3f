/// Screens one upon the other, and at most one sheet over them.
public struct RouteStack<Route: RouteType>: Codable, Hashable, Sendable {
  /// The screen at the bottom.
  public let root: Route
  /// The screens above it, the topmost last. At most 63.
  public private(set) var pushed: [Route] = []
  /// The sheet over the topmost screen.
  public private(set) var sheet: Route?

  /// Shows a screen alone.
  public init(root: Route) { self.root = root }

  /// What is seen: the sheet, or the topmost screen.
  public var shown: Route { sheet ?? top }

  /// The topmost screen, below the sheet.
  public var top: Route { pushed.last ?? root }

  /// All screens, the root first, without the sheet.
  public var path: [Route] { [root] + pushed }

  /// Puts a screen on top.
  public mutating func push(_ route: Route) throws(NavigationError) {
    try requireNoSheet()
    guard route != top else { throw .alreadyShown("\(route)") }
    guard path.count < NavigationLimits.depth else {
      throw .tooDeep(limit: NavigationLimits.depth)
    }
    pushed.append(route)
  }

  /// Takes the topmost screen away.
  public mutating func pop() throws(NavigationError) {
    try requireNoSheet()
    guard !pushed.isEmpty else { throw .atRoot }
    pushed.removeLast()
  }

  /// Takes all screens but the root away.
  public mutating func popToRoot() throws(NavigationError) {
    try requireNoSheet()
    guard !pushed.isEmpty else { throw .atRoot }
    pushed = []
  }

  /// Shows a sheet over the topmost screen.
  public mutating func present(_ route: Route) throws(NavigationError) {
    try requireNoSheet()
    sheet = route
  }

  /// Takes the sheet away.
  public mutating func dismiss() throws(NavigationError) {
    guard sheet != nil else { throw .noSheet }
    sheet = nil
  }

  /// Shows the screens of a path, the root first, in place of those that are there, and no sheet.
  public mutating func show(_ path: [Route]) throws(NavigationError) {
    guard path.first == root else {
      throw .otherRoot(path.first.map { "\($0)" } ?? "an empty path", known: ["\(root)"])
    }
    guard path.count <= NavigationLimits.depth else {
      throw .tooDeep(limit: NavigationLimits.depth)
    }
    pushed = Array(path.dropFirst())
    sheet = nil
  }

  private func requireNoSheet() throws(NavigationError) {
    if let sheet { throw .sheetIsShown("\(sheet)") }
  }
}

#if !canImport(SwiftUI)
  /// The same by the name that SwiftUI has for its own. On systems that have SwiftUI there is ``RouteStack``
  /// alone.
  public typealias NavigationStack = RouteStack
#endif

/// Stands for the routes of a stack that does not exist: see ``RouteStack/init(initial:)``.
extension Never: RouteType {}

extension RouteStack where Route == Never {
  /// A stack of values has no coordinator that makes its screens.
  @available(
    *, unavailable,
    message: "the stack of a coordinator that is an object is CoordinatorStack(initial:)"
  )
  public init<Coordinator: NavigationCoordinatable, Screen>(
    initial root: KeyPath<Coordinator, CoordinatorTransition<Coordinator, Void, Screen>>
  ) { fatalError("unavailable") }
}
