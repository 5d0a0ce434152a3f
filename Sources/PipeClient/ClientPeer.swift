import PipeSupport
import PipeTransport
import PipeWire

/// A client's connection to one node.
final class ClientPeer {
  let name: String
  private(set) var socket: Socket
  private(set) var connections: ConnectionMonitor
  /// The requests in flight, by their numbers.
  private(set) var requests: [UInt64: ClientRequest] = [:]
  /// The requests that wait because too many others are in flight.
  private var waiting = Queue<ClientRequest>()
  /// The number of waiting requests that were given up.
  private var givenUp = 0
  private var window: RequestWindow
  /// Whether the last reported event of the connection is its completion. For a moment, the socket
  /// accepts messages for a lost connection, and loses them.
  var isConnected = false
  /// When the node last answered.
  private(set) var lastAnswer: ContinuousClock.Instant?
  /// Whether the client is asking the orchestrator whether the node runs.
  var isLookupPending = false
  /// The oldest request that was last reported to a coordinator, and how far the report may lag.
  private var lastReported: UInt64
  private static let lag: UInt64 = 64
  private let first: UInt64

  /// The node of the first request, which errors name.
  var node = ""
  /// The registrations of the sockets with the loop.
  var registrations: [PollLoop.Registration] = []

  /// - Parameter name: The name of the node's inbox.
  init(_ name: String, socket: Socket, connections: ConnectionMonitor) {
    self.name = name
    self.socket = socket
    self.connections = connections
    first = RequestKey.firstID(at: WallClock.nanoseconds)
    lastReported = first
    window = RequestWindow(first: first)
  }

  /// Replaces the sockets with sockets for another process of the node.
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

  /// Queues a request behind all others.
  func append(_ request: ClientRequest) { waiting.append(request) }

  /// Assigns a number to the next request. Returns `nil` if no request waits, or too many are in flight.
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

  /// Removes a request in flight. Returns `false` if it is not in flight.
  func end(_ request: ClientRequest) -> Bool {
    guard requests[request.id] === request else { return false }
    requests[request.id] = nil
    window.close(request.id)
    return true
  }

  /// Gives up a waiting request, so that it is never sent.
  func giveUp(_ request: ClientRequest) {
    request.isGivenUp = true
    givenUp += 1
    guard givenUp > waiting.count / 2 else { return }
    givenUp = 0
    for other in waiting.removeAll() where !other.isGivenUp { waiting.append(other) }
  }

  /// Queues a request again, ahead of all others, after the node has forgotten all requests up to a
  /// number. The request must never have been applied. Returns `false` if no number is left.
  func restart(_ request: ClientRequest, after last: UInt64) -> Bool {
    guard window.skip(through: last), end(request) else { return false }
    request.begin(as: 0)
    waiting.prepend(contentsOf: [request])
    return true
  }

  /// Removes all requests and returns them.
  func removeAll() -> [ClientRequest] {
    defer { requests = [:] }
    return Array(requests.values) + waiting.removeAll().filter { !$0.isGivenUp }
  }

  /// Records an answer of the node.
  func answered(byteCount: Int) {
    lastAnswer = .now
    window.received(byteCount: byteCount)
  }

  /// The number of the oldest request without an answer.
  var oldest: UInt64 { window.oldest }

  /// Returns the number of the oldest request without an answer, if a report to the coordinator is due.
  func oldestToReport() -> UInt64? {
    guard oldest >= lastReported + Self.lag else { return nil }
    lastReported = oldest
    return oldest
  }

  /// Forgets the reports after the connection is lost: the next process has received none.
  func resetReports() { lastReported = first }
}
