import PipeMachines
import PipeWire

/// A pipe of a topology: its sender, its receiver and the source of its events.
public struct PipeSpecification: Hashable, Sendable {
  /// The source of a pipe's events.
  public enum Source: Hashable, Sendable {
    /// An out-port that the sender's code declares.
    case port(String)
    /// A rule: whenever the sender enters this state, it sends an event made from the template
    /// `send`.
    case state(String, send: JSONValue)
    /// A rule of a composite without a projection: whenever the nodes of the composite enter this
    /// combination of states, the composite sends an event made from the template `send`.
    case states([String: String], send: JSONValue)
  }

  /// The policy for an event that the receiver refuses.
  public typealias OnRefused = RefusalPolicy

  /// The name; unique among pipes.
  public var name: String
  /// The sending node, or composite.
  public var sender: String
  /// The source of the pipe's events.
  public var source: Source
  /// The receiving node or composite.
  public var receiver: String
  /// The receiver's in-port; `nil` if the pipe names only the receiver.
  public var inPort: String?
  /// The maximum number of events in flight. When the pipe is full, its sender accepts no events.
  /// Default: 1024. Range: 1…65536.
  public var capacity: Int
  /// The policy for an event that the receiver refuses. Default: ``RefusalPolicy/record``.
  public var onRefused: OnRefused
  /// The durability of the pipe's events; `nil` uses the lower durability of the pipe's two nodes.
  public var durability: Durability?
  /// The names that the pipe had in former topology files.
  public var was: [String]
  /// For a pipe to a single shard: the shard, and the event field whose value selects the shard.
  /// `nil` for a pipe of the topology file.
  package var route: NodeConfiguration.Route?

  /// Makes a pipe.
  /// - Parameter name: The name; `nil` uses ``derivedName``, such as
  ///   `door.arrivals->display.updates` or `door:closed->motor:start`.
  public init(
    sender: String, source: Source, receiver: String, inPort: String? = nil, name: String? = nil,
    capacity: Int = 1024, onRefused: OnRefused = .record, durability: Durability? = nil,
    was: [String] = []
  ) {
    self.was = was
    self.sender = sender
    self.source = source
    self.receiver = receiver
    self.inPort = inPort
    self.capacity = capacity
    self.onRefused = onRefused
    self.durability = durability
    self.name = ""
    self.name = name ?? derivedName
  }

  static let capacityRange = 1...65_536

  /// The out-port that sends the events; `nil` for a rule.
  public var outPort: String? {
    if case .port(let port) = source { port } else { nil }
  }

  /// The state of a rule: when the sender enters this state, it sends an event. `nil` for other
  /// kinds of sources.
  public var enteredState: String? {
    if case .state(let state, _) = source { state } else { nil }
  }

  /// The states of a composite's rule, by node: when the nodes enter this combination, an event is
  /// sent.
  ///
  /// `nil` for other kinds of sources.
  public var enteredStatesByNode: [String: String]? {
    if case .states(let states, _) = source { states } else { nil }
  }

  /// The template of the event that the rule sends; `nil` for an out-port.
  public var eventTemplate: JSONValue? {
    switch source {
    case .port: nil
    case .state(_, let send), .states(_, let send): send
    }
  }

  /// The default name. It consists of the pipe's two ends and, for a rule, the state and the event.
  public var derivedName: String {
    let to = PipeEnd(node: receiver, port: inPort)
    switch source {
    case .port(let port): return "\(sender).\(port)->\(to)"
    case .state(let state, let send): return "\(sender):\(state)->\(to):\(send.caseName ?? "?")"
    case .states(let states, let send):
      let list = states.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
      return "\(sender):\(list.joined(separator: ","))->\(to):\(send.caseName ?? "?")"
    }
  }
}

extension PipeSpecification {
  /// Makes a pipe from an out-port to an in-port, or to a node.
  /// - Parameters:
  ///   - from: The sending node and its out-port, as `node.port`.
  ///   - to: The receiving node, and an in-port if wanted: `node.port` or `node`.
  public static func ports(
    from: String, to: String, name: String? = nil, capacity: Int = 1024,
    onRefused: OnRefused = .record
  ) -> PipeSpecification {
    let (from, to) = (PipeEnd(from), PipeEnd(to))
    return PipeSpecification(
      sender: from.node, source: .port(from.port ?? ""), receiver: to.node, inPort: to.port,
      name: name, capacity: capacity, onRefused: onRefused)
  }

  /// Makes a pipe whose sender sends an event whenever the sender enters a state.
  /// - Parameters:
  ///   - to: The receiving node, and an in-port if wanted: `node` or `node.port`.
  ///   - send: A template: an event's name, or `{name: {field: value}}`. In the event that is sent,
  ///     `$name` is replaced by the state's value with that name.
  public static func rule(
    from: String, when state: String, to: String, send: JSONValue, name: String? = nil,
    capacity: Int = 1024, onRefused: OnRefused = .record
  ) -> PipeSpecification {
    let to = PipeEnd(to)
    return PipeSpecification(
      sender: from, source: .state(state, send: send), receiver: to.node, inPort: to.port,
      name: name, capacity: capacity, onRefused: onRefused)
  }

  /// Returns whether a text is a valid pipe name.
  ///
  /// A pipe's name is part of a routing id at the receiver's socket. The routing id limits the
  /// length and the characters of the name.
  static func isValidName(_ name: String) -> Bool {
    (1...128).contains(name.utf8.count) && name.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F }
  }
}

/// An end of a pipe: `node` or `node.port`.
struct PipeEnd: CustomStringConvertible {
  var node: String
  var port: String?

  var description: String { port.map { "\(node).\($0)" } ?? node }
}

extension PipeEnd {
  /// Splits a text at its first dot.
  init(_ text: String) {
    let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    node = String(parts[0])
    port = parts.count > 1 ? String(parts[1]) : nil
  }
}
