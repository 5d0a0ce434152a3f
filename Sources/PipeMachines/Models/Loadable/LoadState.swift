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
