import PipeTransport
import PipeWire

/// What a node has before it opens anything: its keys, where it has some, and a way to its orchestrator.
struct NodeLink {
  /// `nil` for a node on one host with all others.
  let keys: NodeKeys?
  let control: ControlLink

  /// - Throws: ``NodeProblem`` or ``TransportError``. Whoever has no keys is heard by nobody: its log alone tells why.
  init(_ arguments: NodeArguments, at place: NodePlace, log: NodeLog) throws {
    keys = try NodeKeys(arguments, at: place, log: log)
    control = try ControlLink(
      arguments, keys: keys, context: place.context, loop: place.loop, log: log)
  }
}
