/// A machine that loads something when its view appears, and lets go of it when the view disappears.
///
/// ```swift
/// enum MoviesList: LoadableMachine {
///   typealias Parameters = MovieParameters
///
///   static func first(_ parameters: MovieParameters) -> Int { 1 }
///
///   static func load(page: Int, _ parameters: MovieParameters) async throws -> [Movie] { … }
/// }
/// ```
///
/// | in | on | goes to |
/// | --- | --- | --- |
/// | `start` | `onAppear`, `onActive` | `loading`, the first parameter |
/// | any | `load` | `loading`, that parameter |
/// | `loading` | `didLoad`, `didFail` | `loaded`, `failedLoaded` |
/// | `loaded`, `failedLoaded` | `onRetry` | `loading`, the first or the same parameter |
/// | any but `start` | `onDisappear`, `onBackground`, `onReset` | `start`; the loading is cancelled |
public protocol LoadableMachine: Machine
where
  State == LoadState<Parameter, Result>, Event == LoadEvent<Parameter, Result>, Output == Never
{
  /// What says what is to be loaded.
  associatedtype Parameter: Codable & Equatable & Sendable
  /// What is loaded.
  associatedtype Result: Codable & Sendable

  /// What is loaded when the view appears.
  static func first(_ parameters: Parameters) -> Parameter

  /// Loads; cancelled when it is no longer wanted.
  static func load(_ parameter: Parameter, _ parameters: Parameters) async throws -> Result

  /// How long the loading may take before it has failed; `nil` for ever. Default: 30 seconds.
  ///
  /// In a node that is started again while it loads, the time goes on.
  static func timeLimit(_ parameters: Parameters) -> Duration?

  /// What ``load(_:_:)`` finds as ``Injected``, unless ``Services/current`` had others where the
  /// machine was made. Default: nothing.
  static func services(_ parameters: Parameters) -> Services
}

extension LoadableMachine {
  /// Thirty seconds.
  public static func timeLimit(_ parameters: Parameters) -> Duration? { .seconds(30) }

  /// None.
  public static func services(_ parameters: Parameters) -> Services { Services() }

  /// The table above.
  public static func stateMachine(
    _ parameters: Parameters
  ) -> StateMachine<State, Event, Never> {
    let first = first(parameters)
    return StateMachine(initial: .start) { state, event in
      switch (state, event) {
      case (_, .load(let parameter)): .next(.loading(parameter))
      case (.start, .onAppear), (.start, .onActive): .next(.loading(first))
      case (.loading, .didLoad(let result)): .next(.loaded(result))
      case (.loading(let parameter), .didFail(let failure)):
        .next(.failedLoaded(parameter, failure))
      case (.loaded, .onRetry): .next(.loading(first))
      case (.failedLoaded(let parameter, _), .onRetry): .next(.loading(parameter))
      case (.loading, .onDisappear), (.loading, .onBackground), (.loading, .onReset),
        (.loaded, .onDisappear), (.loaded, .onBackground), (.loaded, .onReset),
        (.failedLoaded, .onDisappear), (.failedLoaded, .onBackground), (.failedLoaded, .onReset):
        .next(.start)
      case (.start, _), (.loading, _), (.loaded, _), (.failedLoaded, _): .refused(.noTransition)
      }
    }
  }

  /// The loading, which goes on while the state is `loading`.
  public static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime().feedback(loading(parameters))
  }

  /// The loading, for a runtime that has more.
  public static func loading(_ parameters: Parameters) -> Feedback<State, Event> {
    let limit = timeLimit(parameters)
    let services = Services.current.merging(services(parameters))
    return Feedback(
      lensing: { (state: State) -> Parameter? in
        if case .loading(let parameter) = state { parameter } else { nil }
      },
      gives: .oneOf {
        Event.didLoad
        Event.didFail
      }
    ) { parameter in
      do {
        let result = try await Services.with(services) {
          try await withTimeLimit(limit) { try await load(parameter, parameters) }
        }
        return Event.didLoad(result)
      } catch {
        return Event.didFail(LoadFailure(error))
      }
    }
  }
}

/// Runs work that is cancelled, and has failed, after a time by the clock of effects.
private func withTimeLimit<Result: Sendable>(
  _ limit: Duration?, _ work: @escaping @Sendable () async throws -> Result
) async throws -> Result {
  guard let limit else { return try await work() }
  // Not a task group: it would wait for work that does not listen to its cancellation.
  let (results, gives) = AsyncStream.makeStream(of: Swift.Result<Result, any Error>.self)
  // What had passed before a restart counts for the limit as well as for the work's own waits.
  let run = EffectRun.current?.beside()
  let working = Task {
    do { gives.yield(.success(try await work())) } catch { gives.yield(.failure(error)) }
  }
  let timer = Task {
    try await EffectRun.$current.withValue(run) { try await EffectClock.sleep(for: limit) }
    gives.yield(.failure(LoadFailure("no answer within \(limit.shortText)")))
  }
  defer {
    working.cancel()
    timer.cancel()
  }
  return try await withTaskCancellationHandler {
    for await result in results { return try result.get() }
    throw CancellationError()
  } onCancel: {
    gives.finish()
  }
}

/// Where the loading of something is.
public enum LoadState<Parameter, Result>: MachineState
where Parameter: Codable & Equatable & Sendable, Result: Codable & Sendable {
  /// Nothing is loaded, and nobody looks.
  case start
  /// It is being loaded.
  case loading(Parameter)
  /// It is there.
  case loaded(Result)
  /// It could not be loaded; it can be tried again.
  case failedLoaded(Parameter, LoadFailure)
}

extension LoadState: Equatable where Result: Equatable {}

extension LoadState: StateProtocol {
  /// Whether nothing is being loaded.
  public var isStable: Bool {
    if case .loading = self { false } else { true }
  }
}

/// What happens to something that is loaded: what its view tells, and what comes of the loading.
public enum LoadEvent<Parameter, Result>: MachineEvent
where Parameter: Codable & Equatable & Sendable, Result: Codable & Sendable {
  /// The view is shown.
  case onAppear
  /// The view is gone: the loading is cancelled, and what is there is forgotten.
  case onDisappear
  /// The program is in front again.
  case onActive
  /// The program is no longer in front: as ``onDisappear``.
  case onBackground
  /// Start anew: as ``onDisappear``, though the view stays.
  case onReset
  /// Load again what could not be loaded, or what is there.
  case onRetry
  /// Load with another parameter.
  case load(Parameter)
  /// It has been loaded.
  case didLoad(Result)
  /// It could not be loaded.
  case didFail(LoadFailure)
}

/// Why something could not be loaded.
///
/// In JSON, a string.
public struct LoadFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// The reason, for people.
  public var description: String

  /// Takes the reason.
  public init(_ description: String) { self.description = description }

  /// Takes the reason of an error.
  public init(_ error: any Error) {
    self = error as? LoadFailure ?? LoadFailure("\(error)")
  }
}

extension LoadFailure: Codable {
  /// Reads the reason.
  public init(from decoder: any Decoder) throws {
    self.init(try decoder.singleValueContainer().decode(String.self))
  }

  /// Writes the reason.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(description)
  }
}
