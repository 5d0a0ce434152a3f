import PipeMachines
import PipeSupport

/// A read-only observer of a running topology, in a process of its own.
///
/// A program registers monitors beside its machines. A topology starts a monitor by `monitors:`,
/// and `PROGRAM monitor NAME -p TOPOLOGY` attaches one manually. The nodes notice neither.
public protocol Monitor: SendableMetatype {
  /// The name that topology files and the command line use. Default: the type's own name.
  static var name: String { get }

  /// The states that the monitor receives: every state, which slows the nodes down, or the latest
  /// state at most ten times a second, which costs the nodes next to nothing. Default: `every`.
  static var watches: WatchedStates { get }

  /// Watches until the stream ends. Returning ends the process with success, throwing with failure.
  static func observe(_ states: StateStream) async throws
}

extension Monitor {
  /// The type's own name, without its module.
  public static var name: String { TypeName.own(Self.self) }

  /// Every state.
  public static var watches: WatchedStates { .every }

  /// Attaches to a topology and watches it.
  package static func observe(
    topology: String, control: String, keys: ClientKeys?, watch: [String]?, parameters: JSONValue
  ) async throws {
    try await observe(
      TopologyClient(topology: topology, control: control, keys: keys), watch: watch,
      parameters: parameters)
  }

  /// Watches a topology through a client, and closes the client at the end.
  package static func observe(
    _ client: TopologyClient, watch: [String]?, parameters: JSONValue = [:]
  ) async throws {
    defer { client.close() }
    let states = try await client.states(of: watch, watches)
    if let own = self as? any ParameterizedMonitor.Type {
      return try await own.observe(states, decoding: parameters)
    }
    guard parameters == [:] else { throw UnexpectedParametersError(monitor: name) }
    try await observe(states)
  }
}

/// A monitor that a topology file can give parameters.
///
/// ```swift
/// enum Alarm: ParameterizedMonitor {
///   struct Parameters: MachineParameters { var limit = 10 }
///
///   static func observe(_ states: StateStream, _ parameters: Parameters) async throws { … }
/// }
/// ```
public protocol ParameterizedMonitor: Monitor {
  /// The parameters that a topology file can set.
  associatedtype Parameters: MachineParameters

  /// Watches until the stream ends, as ``Monitor/observe(_:)`` does.
  static func observe(_ states: StateStream, _ parameters: Parameters) async throws
}

extension ParameterizedMonitor {
  /// Watches with the default parameters.
  public static func observe(_ states: StateStream) async throws {
    try await observe(states, Parameters())
  }

  fileprivate static func observe(
    _ states: StateStream, decoding parameters: JSONValue
  ) async throws {
    try await observe(states, Parameters(parameters: parameters))
  }
}

/// A monitor that takes no parameters was given some.
private struct UnexpectedParametersError: Error, CustomStringConvertible {
  let monitor: String

  var description: String {
    "monitor '\(monitor)' takes no parameters; remove 'parameters', or make it a ParameterizedMonitor"
  }
}
