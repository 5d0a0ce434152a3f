/// How the screen of a route comes upon what is there.
public enum PresentationType: Hashable, Sendable {
  /// On top of the stack.
  case push
  /// As a sheet over it.
  case modal
}

/// How the screen of a route is made. Coordinators declare routes with ``Root`` and ``Route``.
@MainActor
public struct CoordinatorTransition<Coordinator: NavigationCoordinatable, Input, Screen> {
  /// `nil` for a root.
  let presentation: PresentationType?
  let make: @MainActor (Coordinator, Input) -> Screen
}

/// A screen at the bottom of a coordinator's stack, made by a method of the coordinator.
///
/// ```swift
/// @Root var start = makeStart
/// ```
@MainActor
@propertyWrapper
public struct Root<Coordinator: NavigationCoordinatable, Screen> {
  /// The way to the screen.
  public let wrappedValue: CoordinatorTransition<Coordinator, Void, Screen>

  /// Takes a way to a screen.
  public init(wrappedValue: CoordinatorTransition<Coordinator, Void, Screen>) {
    self.wrappedValue = wrappedValue
  }
}

extension Root {
  /// Takes the method that makes the screen.
  public init(wrappedValue make: @escaping @MainActor (Coordinator) -> @MainActor () -> Screen) {
    wrappedValue = CoordinatorTransition(presentation: nil) { coordinator, _ in
      make(coordinator)()
    }
  }
}

/// A screen upon others, made by a method of the coordinator. The screen may be a coordinator itself.
///
/// ```swift
/// @Route(.modal) var forgotPassword = makeForgotPassword
/// @Route(.push) var quiz = makeQuiz(id:)
/// ```
@MainActor
@propertyWrapper
public struct Route<Coordinator: NavigationCoordinatable, Input, Screen> {
  /// The way to the screen.
  public let wrappedValue: CoordinatorTransition<Coordinator, Input, Screen>

  /// Takes a way to a screen.
  public init(wrappedValue: CoordinatorTransition<Coordinator, Input, Screen>) {
    self.wrappedValue = wrappedValue
  }
}

extension Route {
  /// Takes the method that makes the screen of what the route is given.
  public init(
    wrappedValue make: @escaping @MainActor (Coordinator) -> @MainActor (Input) -> Screen,
    _ presentation: PresentationType
  ) {
    wrappedValue = CoordinatorTransition(presentation: presentation) { coordinator, input in
      make(coordinator)(input)
    }
  }
}

extension Route where Input == Void {
  /// Takes the method that makes the screen.
  public init(
    wrappedValue make: @escaping @MainActor (Coordinator) -> @MainActor () -> Screen,
    _ presentation: PresentationType
  ) {
    wrappedValue = CoordinatorTransition(presentation: presentation) { coordinator, _ in
      make(coordinator)()
    }
  }
}
