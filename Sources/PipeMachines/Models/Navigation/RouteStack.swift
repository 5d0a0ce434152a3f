/// A stack of screens, with at most one sheet over it.
public struct RouteStack<Route: RouteType>: Codable, Hashable, Sendable {
  /// The screen at the bottom.
  public let root: Route
  /// The screens above the root, with the topmost screen last. There are at most 63.
  public private(set) var pushed: [Route] = []
  /// The sheet over the topmost screen; `nil` if no sheet is shown.
  public private(set) var sheet: Route?

  /// Makes a stack with only a root.
  public init(root: Route) { self.root = root }

  /// The visible screen: the sheet, or the topmost screen.
  public var shown: Route { sheet ?? top }

  /// The topmost screen, below the sheet.
  public var top: Route { pushed.last ?? root }

  /// All screens, the root first, without the sheet.
  public var path: [Route] { [root] + pushed }

  /// Pushes a screen. Throws if a sheet is shown, if the screen is already the topmost screen, or
  /// if the stack is full.
  public mutating func push(_ route: Route) throws(NavigationError) {
    try requireNoSheet()
    guard route != top else { throw .alreadyShown("\(route)") }
    guard path.count < NavigationLimits.maximumDepth else {
      throw .tooDeep(limit: NavigationLimits.maximumDepth)
    }
    pushed.append(route)
  }

  /// Pops the topmost screen. Throws if a sheet is shown, or if only the root is left.
  public mutating func pop() throws(NavigationError) {
    try requireNoSheet()
    guard !pushed.isEmpty else { throw .atRoot }
    pushed.removeLast()
  }

  /// Pops all screens except the root. Throws if a sheet is shown, or if only the root is left.
  public mutating func popToRoot() throws(NavigationError) {
    try requireNoSheet()
    guard !pushed.isEmpty else { throw .atRoot }
    pushed = []
  }

  /// Presents a sheet over the topmost screen. Throws if a sheet is already shown.
  public mutating func present(_ route: Route) throws(NavigationError) {
    try requireNoSheet()
    sheet = route
  }

  /// Dismisses the sheet. Throws if no sheet is shown.
  public mutating func dismiss() throws(NavigationError) {
    guard sheet != nil else { throw .noSheet }
    sheet = nil
  }

  /// Replaces the stack with the screens of a path, the root first, and dismisses the sheet.
  public mutating func show(_ path: [Route]) throws(NavigationError) {
    guard path.first == root else {
      throw .otherRoot(path.first.map { "\($0)" } ?? "an empty path", known: ["\(root)"])
    }
    guard path.count <= NavigationLimits.maximumDepth else {
      throw .tooDeep(limit: NavigationLimits.maximumDepth)
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

/// `Never` is the route type of the unavailable initializer ``RouteStack/init(initial:)``.
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
