import PipeMachines
import PipeSupport

/// A read-only observer of a running topology, in a process of its own.
///
/// A program registers its monitors beside its machines. A monitor that is listed under the key
/// `monitors:` of a topology file starts together with the topology. The command `PROGRAM monitor
/// NAME -p TOPOLOGY` attaches a monitor manually. A monitor sends nothing to the nodes that it
/// observes.
public protocol Monitor: SendableMetatype {
  /// The name that topology files and the command line use. Default: the type's own name.
  static var name: String { get }

  /// The states that the monitor receives. With `every`, the nodes become slower. With `latest`,
  /// the monitor receives the latest state at most ten times a second, with no measurable cost.
  /// Default: `every`.
  static var watches: WatchedStates { get }

  /// Reads states until the stream ends. If this function returns, the process exits with success;
  /// if it throws, the process exits with failure.
  static func observe(_ states: StateStream) async throws
}

extension Monitor {
  /// The type's own name, without its module.
  public static var name: String { TypeName.unqualified(Self.self) }

  /// The monitor receives every state.
  public static var watches: WatchedStates { .every }

  /// Attaches to a topology and runs the monitor.
  package static func observe(
    topology: String, control: String, keys: ClientKeys?, watch: [String]?, parameters: JSONValue
  ) async throws {
    try await observe(
      TopologyClient(topology: topology, control: control, keys: keys), watch: watch,
      parameters: parameters)
  }

  /// Runs the monitor with a client, and closes the client at the end.
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

/// A monitor with parameters, which a topology file can set.
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

  /// Reads states until the stream ends, as ``Monitor/observe(_:)`` does.
  static func observe(_ states: StateStream, _ parameters: Parameters) async throws
}

extension ParameterizedMonitor {
  /// Runs the monitor with the default parameters.
  public static func observe(_ states: StateStream) async throws {
    try await observe(states, Parameters())
  }

  fileprivate static func observe(
    _ states: StateStream, decoding parameters: JSONValue
  ) async throws {
    try await observe(states, Parameters(parameters: parameters))
  }
}

/// The error that parameters were given to a monitor that has no parameters.
private struct UnexpectedParametersError: Error, CustomStringConvertible {
  let monitor: String

  var description: String {
    "monitor '\(monitor)' takes no parameters; remove 'parameters', or make it a ParameterizedMonitor"
  }
}
