/// Tabs, one of them selected, each with its own stack.
public struct NavigationTabs<Tab: TabType>: Codable, Hashable, Sendable {
  /// The tab that is shown.
  public private(set) var selected: Tab
  /// The stacks of the tabs that show more than their root.
  private var stacks: [Tab: RouteStack<Tab.Route>] = [:]

  /// Shows a tab; all of them show their roots.
  public init(selected: Tab) { self.selected = selected }

  /// The stack of a tab.
  public subscript(tab: Tab) -> RouteStack<Tab.Route> {
    stacks[tab] ?? RouteStack(root: tab.root)
  }

  /// The stack of the selected tab.
  public var stack: RouteStack<Tab.Route> { self[selected] }

  /// What is seen.
  public var shown: Tab.Route { stack.shown }

  /// Selects a tab, whose stack is as it was left. The selected one goes back to its root.
  public mutating func select(_ tab: Tab) throws(NavigationError) {
    if tab == selected { try change { stack throws(NavigationError) in try stack.popToRoot() } }
    selected = tab
  }

  /// Changes the stack of the selected tab.
  public mutating func change(
    _ change: (inout RouteStack<Tab.Route>) throws(NavigationError) -> Void
  ) throws(NavigationError) {
    var stack = stack
    try change(&stack)
    stacks[selected] = stack == RouteStack(root: selected.root) ? nil : stack
  }

  /// Selects the tab whose root the path begins with, and shows the path's screens there.
  public mutating func show(_ path: [Tab.Route]) throws(NavigationError) {
    guard let tab = Tab.allCases.first(where: { $0.root == path.first }) else {
      throw .otherRoot(
        path.first.map { "\($0)" } ?? "an empty path", known: Tab.allCases.map { "\($0.root)" })
    }
    var copy = self
    copy.selected = tab
    try copy.change { stack throws(NavigationError) in try stack.show(path) }
    self = copy
  }
}
