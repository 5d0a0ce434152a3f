/// A machine that loads content when its view appears, and discards the content when the view
/// disappears.
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
  /// The type that identifies the content to load.
  associatedtype Parameter: Codable & Equatable & Sendable
  /// The type of the content.
  associatedtype Result: Codable & Sendable

  /// Returns the parameter to load when the view appears.
  static func first(_ parameters: Parameters) -> Parameter

  /// Loads the content. The task is cancelled when the content is no longer needed.
  static func load(_ parameter: Parameter, _ parameters: Parameters) async throws -> Result

  /// Returns the time after which loading fails; `nil` for no limit. Default: 30 seconds.
  ///
  /// The limit also includes the time that passes while a node is restarted during loading.
  static func timeLimit(_ parameters: Parameters) -> Duration?

  /// Returns the services that ``load(_:_:)`` can use as ``Injected`` properties. Services that
  /// were in ``Services/current`` when the machine was made take precedence. Default: none.
  static func services(_ parameters: Parameters) -> Services
}

extension LoadableMachine {
  /// Returns 30 seconds.
  public static func timeLimit(_ parameters: Parameters) -> Duration? { .seconds(30) }

  /// Returns no services.
  public static func services(_ parameters: Parameters) -> Services { Services() }

  /// Returns the state machine that the table in ``LoadableMachine`` describes.
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

  /// Returns a runtime with the loading feedback, which runs while the state is `loading`.
  public static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime().feedback(loading(parameters))
  }

  /// Returns the loading feedback, for a runtime that also has other effects or pipes.
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

/// Runs work with a time limit. At the limit, the work is cancelled, and this function throws an
/// error. The clock is ``EffectClock``.
private func withTimeLimit<Result: Sendable>(
  _ limit: Duration?, _ work: @escaping @Sendable () async throws -> Result
) async throws -> Result {
  guard let limit else { return try await work() }
  // A task group is not suitable here, because it would wait for work that ignores its
  // cancellation.
  let (results, gives) = AsyncStream.makeStream(of: Swift.Result<Result, any Error>.self)
  // The time that passed before a restart counts towards the time limit, and also towards the waits
  // of the work. So the limit and the work use separate copies of the run.
  let run = EffectRun.current?.makeConcurrentRun()
  let workTask = Task {
    do { gives.yield(.success(try await work())) } catch { gives.yield(.failure(error)) }
  }
  let timer = Task {
    try await EffectRun.$current.withValue(run) { try await EffectClock.sleep(for: limit) }
    gives.yield(.failure(LoadFailure("timed out after \(limit.shortText)")))
  }
  defer {
    workTask.cancel()
    timer.cancel()
  }
  return try await withTaskCancellationHandler {
    for await result in results { return try result.get() }
    throw CancellationError()
  } onCancel: {
    gives.finish()
  }
}

/// The state of a loading process.
public enum LoadState<Parameter, Result>: MachineState
where Parameter: Codable & Equatable & Sendable, Result: Codable & Sendable {
  /// Nothing is loaded, and loading is not in progress.
  case start
  /// The content is being loaded.
  case loading(Parameter)
  /// The content has been loaded.
  case loaded(Result)
  /// Loading has failed; it can be retried.
  case failedLoaded(Parameter, LoadFailure)
}

extension LoadState: Equatable where Result: Equatable {}

extension LoadState: StateProtocol {
  /// Whether loading is not in progress.
  public var isStable: Bool {
    if case .loading = self { false } else { true }
  }
}

/// An event of a loading process, from its view or from the loading itself.
public enum LoadEvent<Parameter, Result>: MachineEvent
where Parameter: Codable & Equatable & Sendable, Result: Codable & Sendable {
  /// The view has appeared.
  case onAppear
  /// The view has disappeared. The loading is cancelled, and the content is discarded.
  case onDisappear
  /// The application has become active again.
  case onActive
  /// The application has moved to the background: same effect as ``onDisappear``.
  case onBackground
  /// The content must be discarded: same effect as ``onDisappear``, although the view remains.
  case onReset
  /// The content must be loaded again, after a failure or for a refresh.
  case onRetry
  /// The content for another parameter must be loaded.
  case load(Parameter)
  /// Loading has succeeded.
  case didLoad(Result)
  /// Loading has failed.
  case didFail(LoadFailure)
}

/// The reason why loading failed.
///
/// A failure is encoded in JSON as a string.
public struct LoadFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// The reason, as a text for users.
  public var description: String

  /// Makes a failure with a reason.
  public init(_ description: String) { self.description = description }

  /// Makes a failure from an error.
  public init(_ error: any Error) {
    self = error as? LoadFailure ?? LoadFailure("\(error)")
  }
}

extension LoadFailure: Codable {
  /// Decodes the reason.
  public init(from decoder: any Decoder) throws {
    self.init(try decoder.singleValueContainer().decode(String.self))
  }

  /// Encodes the reason.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(description)
  }
}
