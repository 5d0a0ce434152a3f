import PipeSupport

/// A read-only observer of a running topology, as a process of its own.
///
/// A program registers monitors beside its machines. A topology starts one by `monitors:`, and
/// `PROGRAM monitor NAME -p TOPOLOGY` attaches one by hand; the nodes notice neither.
public protocol Monitor: SendableMetatype {
  /// The name that topology files and the command line use. Default: the type's own name.
  static var name: String { get }

  /// The states that it is told: every one, at the nodes' expense, or the latest, ten times a second at most,
  /// which costs them next to nothing. Default: `every`.
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
    topology: String, control: String, keys: ClientKeys?, watch: [String]?
  ) async throws {
    try await observe(
      TopologyClient(topology: topology, control: control, keys: keys), watch: watch)
  }

  /// Watches a topology through a client, which is closed in the end.
  package static func observe(_ client: TopologyClient, watch: [String]?) async throws {
    defer { client.close() }
    try await observe(client.states(of: watch, watches))
  }
}
