/// What machines and views depend on, by type: the movies' service, a database.
///
/// ```swift
/// var services = Services()
/// services.register((any MovieService).self) { FileMovieService(path: path) }
/// await Services.with(services) { … }
/// ```
public struct Services: Sendable {
  /// The services of the current task; none, where nobody has given it any.
  @TaskLocal public static var current = Services()

  private var makers: [ObjectIdentifier: @Sendable () -> any Sendable] = [:]

  /// Makes an empty set.
  public init() {}

  /// Says how a service is made, each time that it is asked for. A later one replaces an earlier one.
  public mutating func register<Service: Sendable>(
    _: Service.Type, _ make: @escaping @Sendable () -> Service
  ) {
    makers[ObjectIdentifier(Service.self)] = make
  }

  /// These services, and the others where these have none of a type.
  public func merging(_ others: Services) -> Services {
    var services = self
    services.makers.merge(others.makers) { own, _ in own }
    return services
  }

  /// A service; `nil` where none of the type is registered.
  public func resolve<Service: Sendable>(_: Service.Type) -> Service? {
    makers[ObjectIdentifier(Service.self)]?() as? Service
  }

  /// Runs work that finds these services, and that the machines find which it starts.
  public static func with<Result>(
    _ services: Services, isolation: isolated (any Actor)? = #isolation,
    _ work: () async throws -> Result
  ) async rethrows -> Result {
    try await $current.withValue(services) { try await work() }
  }
}

/// A service that is looked up in ``Services/current`` when its owner is made.
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

  /// Looks the service up.
  public init() {
    guard let service = Services.current.resolve(Service.self) else {
      preconditionFailure(
        "no service of type \(Service.self) is registered; register one in 'Services' before")
    }
    wrappedValue = service
  }

  /// Takes the service that is given, as a test does.
  public init(wrappedValue: Service) { self.wrappedValue = wrappedValue }
}
