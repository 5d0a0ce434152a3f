import PipeMachines

/// A state of a node, from the node's feed.
public struct StateChange: Hashable, Sendable {
  /// The node's name.
  public var node: String
  /// The incarnation of the node's process, counted from 1.
  public var incarnation: UInt64
  /// The node's version: the number of its steps up to this state.
  public var version: UInt64
  /// The time at which the node entered the state. Unit: nanoseconds since 1970.
  public var time: Int64
  /// The cause of the state: `start`, `request`, `effect`, or a pipe's name.
  public var cause: String
  /// The state as JSON.
  public var state: JSONValue
  /// The number of states that the client has missed between the last received state and this
  /// state. A client misses states when it is too slow, or when it requests only the latest state.
  /// Unit: states.
  public var missedCount: UInt64 = 0
  /// The transactions in doubt: the node, or a node of the composite, is prepared for them and does
  /// not know their outcomes. See ``TopologyClient/states(of:_:reportingInDoubt:)``.
  public var doubts: [InDoubtTransaction] = []
  /// Whether the state is intermediate: the node, such as a model, has published the state before
  /// the end of a step. Intermediate states are not recorded. If the node is killed before the step
  /// ends, the state may be published again.
  public var isIntermediate = false
  /// Whether the same state was reported before, and only other properties have changed.
  package var isRepeated = false
  /// The node's summary, if it was requested.
  public var summary: NodeSummary?

  package init(
    node: String, incarnation: UInt64, version: UInt64, time: Int64, cause: String,
    state: JSONValue, missedCount: UInt64 = 0, doubts: [InDoubtTransaction] = [],
    isIntermediate: Bool = false
  ) {
    self.node = node
    self.incarnation = incarnation
    self.version = version
    self.time = time
    self.cause = cause
    self.state = state
    self.missedCount = missedCount
    self.doubts = doubts
    self.isIntermediate = isIntermediate
  }

  /// Decodes the state. Throws `DecodingError` if the JSON does not match the type.
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

  /// Reads a frame of a feed: a state of a node or of an instance, or a summary.
  package init(frame: UnsafeRawBufferPointer) throws {
    let header = try FrameHeader(frame)
    guard [.state, .summary, .instance].contains(header.kind) else {
      throw FrameError.kind(header.kind.rawValue)
    }
    let body = try JSONRecord.decode(
      Body.self, from: UnsafeRawBufferPointer(rebasing: frame[FrameHeader.byteCount...]))
    node = body.node
    incarnation = header.incarnationOrSession
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
