/// A stack of screens, with at most one sheet over it.
public struct RouteStack<Route: RouteType>: Codable, Hashable, Sendable {
  /// The screen at the bottom.
  public let root: Route
  /// The screens above the root, the topmost last. At most 63.
  public private(set) var pushed: [Route] = []
  /// The sheet over the topmost screen.
  public private(set) var sheet: Route?

  /// Makes a stack with only a root.
  public init(root: Route) { self.root = root }

  /// The visible screen: the sheet, or the topmost screen.
  public var shown: Route { sheet ?? top }

  /// The topmost screen, below the sheet.
  public var top: Route { pushed.last ?? root }

  /// All screens, the root first, without the sheet.
  public var path: [Route] { [root] + pushed }

  /// Pushes a screen.
  public mutating func push(_ route: Route) throws(NavigationError) {
    try requireNoSheet()
    guard route != top else { throw .alreadyShown("\(route)") }
    guard path.count < NavigationLimits.depth else {
      throw .tooDeep(limit: NavigationLimits.depth)
    }
    pushed.append(route)
  }

  /// Pops the topmost screen.
  public mutating func pop() throws(NavigationError) {
    try requireNoSheet()
    guard !pushed.isEmpty else { throw .atRoot }
    pushed.removeLast()
  }

  /// Pops all screens except the root.
  public mutating func popToRoot() throws(NavigationError) {
    try requireNoSheet()
    guard !pushed.isEmpty else { throw .atRoot }
    pushed = []
  }

  /// Presents a sheet over the topmost screen.
  public mutating func present(_ route: Route) throws(NavigationError) {
    try requireNoSheet()
    sheet = route
  }

  /// Dismisses the sheet.
  public mutating func dismiss() throws(NavigationError) {
    guard sheet != nil else { throw .noSheet }
    sheet = nil
  }

  /// Replaces the stack with the screens of a path, the root first, and dismisses the sheet.
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
  /// Another name for ``RouteStack``, for systems without SwiftUI, which has its own
  /// `NavigationStack`.
  public typealias NavigationStack = RouteStack
#endif

/// A placeholder route type for a stack that does not exist: see ``RouteStack/init(initial:)``.
extension Never: RouteType {}

extension RouteStack where Route == Never {
  /// Unavailable: a stack of values has no coordinator that makes its screens.
  @available(
    *, unavailable,
    message: "use CoordinatorStack(initial:) for a coordinator that is a class"
  )
  public init<Coordinator: NavigationCoordinatable, Screen>(
    initial root: KeyPath<Coordinator, CoordinatorTransition<Coordinator, Void, Screen>>
  ) { fatalError("unavailable") }
}
