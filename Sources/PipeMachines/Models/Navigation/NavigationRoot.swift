/// What is shown to those who have not logged in, and to those who have.
public enum NavigationRoot<Unauthenticated, Authenticated>: Codable, Hashable, Sendable
where
  Unauthenticated: Codable & Hashable & Sendable, Authenticated: Codable & Hashable & Sendable
{
  /// Nobody is logged in.
  case unauthenticated(screens: Unauthenticated)
  /// Somebody is.
  case authenticated(screens: Authenticated)

  /// Whether somebody is logged in.
  public var isAuthenticated: Bool {
    if case .authenticated = self { true } else { false }
  }

  /// Goes over to what is shown to those who have logged in.
  public mutating func logIn(to screens: Authenticated) throws(NavigationError) {
    guard !isAuthenticated else { throw .authenticated }
    self = .authenticated(screens: screens)
  }

  /// Goes back; what was shown is forgotten.
  public mutating func logOut(to screens: Unauthenticated) throws(NavigationError) {
    guard isAuthenticated else { throw .unauthenticated }
    self = .unauthenticated(screens: screens)
  }

  /// Changes the screens of those who have logged in.
  public mutating func whenAuthenticated(
    _ change: (inout Authenticated) throws(NavigationError) -> Void
  ) throws(NavigationError) {
    guard case .authenticated(var screens) = self else { throw .unauthenticated }
    try change(&screens)
    self = .authenticated(screens: screens)
  }

  /// Changes the screens of those who have not logged in.
  public mutating func whenUnauthenticated(
    _ change: (inout Unauthenticated) throws(NavigationError) -> Void
  ) throws(NavigationError) {
    guard case .unauthenticated(var screens) = self else { throw .authenticated }
    try change(&screens)
    self = .unauthenticated(screens: screens)
  }
}
