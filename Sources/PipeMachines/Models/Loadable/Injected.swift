/// The dependencies of machines and views, by type, such as a movie service or a database.
///
/// ```swift
/// var services = Services()
/// services.register((any MovieService).self) { FileMovieService(path: path) }
/// await Services.with(services) { … }
/// ```
public struct Services: Sendable {
  /// The services of the current task; empty by default.
  @TaskLocal public static var current = Services()

  private var makersByType: [ObjectIdentifier: @Sendable () -> any Sendable] = [:]

  /// Makes an empty set.
  public init() {}

  /// Registers the function that makes a service each time it is resolved. A later registration of
  /// a type replaces an earlier registration.
  public mutating func register<Service: Sendable>(
    _: Service.Type, _ make: @escaping @Sendable () -> Service
  ) {
    makersByType[ObjectIdentifier(Service.self)] = make
  }

  /// Returns these services, and the services of `others` for the types that are not registered
  /// here.
  public func merging(_ others: Services) -> Services {
    var services = self
    services.makersByType.merge(others.makersByType) { own, _ in own }
    return services
  }

  /// Returns a service; `nil` if the type is not registered.
  public func resolve<Service: Sendable>(_: Service.Type) -> Service? {
    makersByType[ObjectIdentifier(Service.self)]?() as? Service
  }

  /// Runs work with these services. Machines that are started during the work can resolve the
  /// services, too.
  public static func with<Result>(
    _ services: Services, isolation: isolated (any Actor)? = #isolation,
    _ work: () async throws -> Result
  ) async rethrows -> Result {
    try await $current.withValue(services) { try await work() }
  }
}

/// A property whose value is resolved from ``Services/current`` when its owner is initialized.
///
/// ```swift
/// struct MoviesLoader {
///   @Injected var service: any MovieService
/// }
/// ```
/// - Precondition: A service of the type is registered.
@propertyWrapper
public struct Injected<Service: Sendable>: Sendable {
  /// The service.
  public var wrappedValue: Service

  /// Resolves the service from ``Services/current``.
  public init() {
    guard let service = Services.current.resolve(Service.self) else {
      preconditionFailure(
        "no service of type \(Service.self) is registered; register the service in 'Services' first"
      )
    }
    wrappedValue = service
  }

  /// Uses the given service instead of resolving one, for tests.
  public init(wrappedValue: Service) { self.wrappedValue = wrappedValue }
}
