import PipeMachines

/// One state of one node, as its feed publishes it.
public struct StateChange: Hashable, Sendable {
  /// The node's name.
  public var node: String
  /// The number of the node's starts.
  public var incarnation: UInt64
  /// The number of the node's steps since this start.
  public var version: UInt64
  /// When the node entered the state. Unit: nanoseconds since 1970.
  public var time: Int64
  /// The cause of the state: `start`, `request`, `effect`, or a pipe's name.
  public var cause: String
  /// The state as JSON.
  public var state: JSONValue
  /// The number of states of this incarnation that this observer missed before this one: because it
  /// was too slow, or asks for the latest state only. Unit: states.
  public var missed: UInt64 = 0
  /// The transactions in doubt: the node, or a node of the composite, is prepared and does not know
  /// the outcome; see ``TopologyClient/states(of:_:reportingInDoubt:)``.
  public var doubts: [InDoubtTransaction] = []
  /// Whether the node only passes through the state during a step, as a model does. Such a state is
  /// not recorded: if the node is killed before its step is over, the state may be seen again.
  public var isIntermediate = false
  /// Whether the state was reported before, and only the information beside it is new.
  package var isRepeated = false
  /// The node's summary, if it was requested.
  public var summary: NodeSummary?

  package init(
    node: String, incarnation: UInt64, version: UInt64, time: Int64, cause: String,
    state: JSONValue, missed: UInt64 = 0, doubts: [InDoubtTransaction] = [],
    isIntermediate: Bool = false
  ) {
    self.node = node
    self.incarnation = incarnation
    self.version = version
    self.time = time
    self.cause = cause
    self.state = state
    self.missed = missed
    self.doubts = doubts
    self.isIntermediate = isIntermediate
  }

  /// Decodes the state. Throws `DecodingError` if the state is not of the type.
  public func state<State: Decodable>(as type: State.Type = State.self) throws -> State {
    try state.decode(type)
  }
}

extension StateChange {
  private struct Body: Decodable {
    var node: String
    var time: Int64
    var cause: String
    var state: JSONValue
    var doubt: InDoubtTransaction?
    var isIntermediate: Bool?
    var status: NodeStatus?
    var transitions: TransitionCounts?
  }

  /// Reads a frame of a feed: a state or a summary.
  package init(frame: UnsafeRawBufferPointer) throws {
    let header = try FrameHeader(frame)
    guard [.state, .summary, .instance].contains(header.kind) else {
      throw FrameError.kind(header.kind.rawValue)
    }
    let body = try JSONRecord.decode(
      Body.self, from: UnsafeRawBufferPointer(rebasing: frame[FrameHeader.byteCount...]))
    node = body.node
    incarnation = header.number
    version = header.sequence
    time = body.time
    cause = body.cause
    state = body.state
    doubts = body.doubt.map { [$0] } ?? []
    isIntermediate = body.isIntermediate ?? false
    if header.kind == .summary {
      summary = NodeSummary(status: body.status, transitions: body.transitions)
    }
  }
}
