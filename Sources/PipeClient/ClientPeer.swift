import PipeSupport
import PipeTransport
import PipeWire

/// A client's connection to one node.
final class ClientPeer {
  let name: String
  private(set) var socket: Socket
  private(set) var connections: ConnectionMonitor
  /// Those in flight, by their numbers.
  private(set) var requests: [UInt64: ClientRequest] = [:]
  /// Those for which too many others are in flight.
  private var waiting = Queue<ClientRequest>()
  /// How many of those are not sent any more.
  private var givenUp = 0
  private var window: RequestWindow
  /// Whether the last that was heard of the connection is that it is complete: for a moment the socket
  /// takes messages for one that is gone, and loses them.
  var isConnected = false
  /// When the node has answered last.
  private(set) var lastAnswer: ContinuousClock.Instant?
  /// Whether the orchestrator is asked whether the node runs.
  var isLookedFor = false
  /// The oldest request that a coordinator was told of, and how far that may lag.
  private var told: UInt64
  private static let lag: UInt64 = 64
  private let first: UInt64

  /// The node that was asked first, which errors tell of.
  var node = ""
  /// What is read of the sockets.
  var registrations: [PollLoop.Registration] = []

  /// - Parameter name: What its inbox is known by.
  init(_ name: String, socket: Socket, connections: ConnectionMonitor) {
    self.name = name
    self.socket = socket
    self.connections = connections
    first = RequestKey.firstID(at: WallClock.nanoseconds)
    told = first
    window = RequestWindow(first: first)
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

  // MARK: Requests

  var hasRequests: Bool { !requests.isEmpty || !waiting.isEmpty }

  /// Takes a request in, as the last one.
  func append(_ request: ClientRequest) { waiting.append(request) }

  /// Gives the next request a number where it may be in flight now.
  func begin() -> ClientRequest? {
    while waiting.first?.isGivenUp == true {
      _ = waiting.popFirst()
      givenUp -= 1
    }
    guard !waiting.isEmpty, let id = window.open(), let request = waiting.popFirst() else {
      return nil
    }
    request.begin(as: id)
    requests[id] = request
    return request
  }

  /// Takes out a request in flight. Returns `false` where it is none.
  func end(_ request: ClientRequest) -> Bool {
    guard requests[request.id] === request else { return false }
    requests[request.id] = nil
    window.close(request.id)
    return true
  }

  /// A request that waits is not sent any more.
  func giveUp(_ request: ClientRequest) {
    request.isGivenUp = true
    givenUp += 1
    guard givenUp > waiting.count / 2 else { return }
    givenUp = 0
    for other in waiting.removeAll() where !other.isGivenUp { waiting.append(other) }
  }

  /// The node has forgotten all requests up to a number: has one that was never applied begin again, as the first of
  /// those that wait. Returns `false` where no number is left.
  func restart(_ request: ClientRequest, after last: UInt64) -> Bool {
    guard window.skip(through: last), end(request) else { return false }
    request.begin(as: 0)
    waiting.prepend(contentsOf: [request])
    return true
  }

  /// Takes out all requests.
  func removeAll() -> [ClientRequest] {
    defer { requests = [:] }
    return Array(requests.values) + waiting.removeAll().filter { !$0.isGivenUp }
  }

  /// The node has answered.
  func answered(byteCount: Int) {
    lastAnswer = .now
    window.received(byteCount: byteCount)
  }

  /// The oldest request whose answer is still awaited.
  var oldest: UInt64 { window.oldest }

  /// The oldest request that is not answered yet, where a coordinator is to be told of it.
  func oldestToTell() -> UInt64? {
    guard oldest >= told + Self.lag else { return nil }
    told = oldest
    return oldest
  }

  /// The connection is gone: whoever is there next was told nothing.
  func forgetTold() { told = first }
}
