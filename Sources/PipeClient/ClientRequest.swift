import PipeMachines
import PipeTransport
import PipeWire

/// A request of a client, from its first frame to its answer.
final class ClientRequest {
  enum Content: Sendable {
    case event([UInt8])
    case deadLetter(UInt64, drops: Bool)
    /// To a coordinator; the count says how long it may wait. Unit: milliseconds.
    case synchronize([UInt8], SynchronizeFlag, count: UInt32)
    /// What would be said to an event, or to all where there is none.
    case explain([UInt8])
  }

  /// What a node answers.
  enum Answer: Sendable {
    case outcome(RequestOutcome)
    case synchronized(TransactionReply)
    case explained(JSONValue)
  }

  let id: UInt64
  let content: Content
  let node: NodeInformation
  let timeout: Duration
  let completion: ClientSockets.Reply
  var timer: TimerQueue.ID?
  var repeatTimer: TimerQueue.ID?
  /// How long it waits for its answer before it is sent again.
  var pause: Duration = .milliseconds(250)
  /// Whether the socket has taken it at least once.
  var isSent = false
  /// Whether it was sent to a process that then went away.
  var isRepeated = false

  init(
    id: UInt64, content: Content, node: NodeInformation, timeout: Duration,
    completion: @escaping ClientSockets.Reply
  ) {
    self.id = id
    self.content = content
    self.node = node
    self.timeout = timeout
    self.completion = completion
  }

  /// Whether it is sent again where its answer does not come: it is then taken once all the same.
  var isRepeatable: Bool {
    guard node.durability != .volatile else { return false }
    return switch content {
    case .event: true
    case .deadLetter(_, let drops): drops
    // What a broadcast has done is not recorded.
    case .synchronize(_, let flag, _): flag != .broadcast
    // A node that goes away is a part of the answer.
    case .explain: false
    }
  }

  /// Whether it asks, and would change nothing.
  var isQuestion: Bool { if case .explain = content { true } else { false } }

  /// The frame; the same request has the same number however often it is sent.
  func frame(client: UInt64, oldest: UInt64) -> (FrameHeader, [UInt8]) {
    switch content {
    case .event(let bytes):
      let header = FrameHeader(
        .request, count: UInt32(clamping: id - min(oldest, id)), sequence: id, number: client)
      return (header, bytes)
    case .deadLetter(let letter, let drops):
      return (FrameHeader(.deadLetter, count: drops ? 1 : 0, sequence: id, number: letter), [])
    case .synchronize(let body, let flag, let count):
      let header = FrameHeader(
        .synchronize, flags: flag.rawValue, count: count, sequence: id, number: client)
      return (header, body)
    case .explain(let event): return (FrameHeader(.explain, sequence: id), event)
    }
  }
}

/// A client's connection to one node.
final class ClientPeer {
  let name: String
  private(set) var socket: Socket
  private(set) var connections: ConnectionMonitor
  var requests: [UInt64: ClientRequest] = [:]
  /// Whether the last that was heard of the connection is that it is complete: for a moment the socket
  /// takes messages for one that is gone, and loses them.
  var isConnected = false
  private var answered: UInt64 = 0
  /// The oldest request that a coordinator was told of, and how far that may lag.
  private var told: UInt64 = 0
  private static let lag: UInt64 = 64

  /// The node that was asked first, which errors tell of.
  var node = ""
  /// What is read of the sockets.
  var registrations: [PollLoop.Registration] = []

  /// - Parameter name: What its inbox is known by.
  init(_ name: String, socket: Socket, connections: ConnectionMonitor) {
    self.name = name
    self.socket = socket
    self.connections = connections
  }

  /// Goes over to sockets of another process of the node.
  func take(socket: Socket, connections: ConnectionMonitor) {
    close()
    self.socket = socket
    self.connections = connections
    isConnected = false
  }

  func close() {
    connections.close()
    socket.close()
  }

  /// The oldest request that is not answered yet, where a coordinator is to be told of it.
  func oldestToTell(before id: UInt64) -> UInt64? {
    let oldest = oldest(before: id)
    guard oldest >= told + Self.lag else { return nil }
    told = oldest
    return oldest
  }

  /// The connection is gone: whoever is there next was told nothing.
  func forgetTold() { told = 0 }

  /// The oldest request that is not answered yet.
  func oldest(before id: UInt64) -> UInt64 {
    while answered + 1 < id, requests[answered + 1] == nil { answered += 1 }
    return min(answered + 1, id)
  }
}
