import PipeSupport
import PipeTransport
import PipeWire

/// A client's connection to one node.
final class ClientPeer {
  let inboxName: String
  private(set) var socket: Socket
  private(set) var connections: ConnectionMonitor
  /// The requests in flight, by their numbers.
  private(set) var requests: [UInt64: ClientRequest] = [:]
  /// The requests that are not sent yet because too many other requests are in flight.
  private var waitingRequests = Queue<ClientRequest>()
  /// The number of requests in `waitingRequests` that the client has given up and will never send.
  private var givenUpCount = 0
  private var window: RequestWindow
  /// Whether the connection is complete, according to the last event of the connection. For a
  /// moment after a connection is lost, the socket still accepts messages, and loses them.
  var isConnected = false
  /// The time of the node's last answer.
  private(set) var lastAnswer: ContinuousClock.Instant?
  /// Whether the client has asked the orchestrator about the node, and waits for the answer.
  var isLookupPending = false
  /// The number of the oldest unanswered request, as last reported to a coordinator.
  private var lastReportedNumber: UInt64
  private static let maximumReportLag: UInt64 = 64
  private let firstRequestNumber: UInt64

  /// The name of the node to which the first request was addressed. Error messages name this node.
  var firstNode = ""
  /// The registrations of the sockets with the loop.
  var registrations: [PollLoop.Registration] = []

  /// - Parameter inboxName: The name of the node's inbox.
  init(_ inboxName: String, socket: Socket, connections: ConnectionMonitor) {
    self.inboxName = inboxName
    self.socket = socket
    self.connections = connections
    firstRequestNumber = RequestKey.firstID(at: WallClock.nanoseconds)
    lastReportedNumber = firstRequestNumber
    window = RequestWindow(first: firstRequestNumber)
  }

  /// Replaces the sockets with sockets that connect to the node's new process.
  func replace(socket: Socket, connections: ConnectionMonitor) {
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

  var hasRequests: Bool { !requests.isEmpty || !waitingRequests.isEmpty }

  /// Whether the client must ask the orchestrator about the node, because the node cannot answer a
  /// request now.
  var needsLookup: Bool { requests.values.contains { needsLookup(for: $0) } }

  func needsLookup(for request: ClientRequest) -> Bool {
    request.isPostponed || !isConnected && (request.isRepeated || !request.isSent)
  }

  /// Appends a request to the queue of waiting requests.
  func append(_ request: ClientRequest) { waitingRequests.append(request) }

  /// Assigns a number to the next request in the queue, which is then in flight. Returns `nil` if
  /// the queue is empty, or if too many requests are in flight.
  func beginNextRequest() -> ClientRequest? {
    while waitingRequests.first?.isGivenUp == true {
      _ = waitingRequests.popFirst()
      givenUpCount -= 1
    }
    guard !waitingRequests.isEmpty, let id = window.open(), let request = waitingRequests.popFirst()
    else {
      return nil
    }
    request.begin(as: id)
    requests[id] = request
    return request
  }

  /// Ends a request that is in flight. Returns `false` if the request is not in flight.
  func end(_ request: ClientRequest) -> Bool {
    guard requests[request.id] === request else { return false }
    requests[request.id] = nil
    window.close(request.id)
    return true
  }

  /// Gives up a request in the queue, so that the request is never sent.
  func giveUp(_ request: ClientRequest) {
    request.isGivenUp = true
    givenUpCount += 1
    guard givenUpCount > waitingRequests.count / 2 else { return }
    givenUpCount = 0
    for other in waitingRequests.removeAll() where !other.isGivenUp {
      waitingRequests.append(other)
    }
  }

  /// Moves a request in flight back to the front of the queue, because the node has forgotten all
  /// requests with numbers up to `last`. Precondition: the node has never applied the request.
  /// Returns `false` if no number is left.
  func restart(_ request: ClientRequest, after last: UInt64) -> Bool {
    guard window.skip(through: last), end(request) else { return false }
    request.begin(as: 0)
    waitingRequests.prepend(contentsOf: [request])
    return true
  }

  /// Removes all requests and returns them.
  func removeAll() -> [ClientRequest] {
    defer { requests = [:] }
    return Array(requests.values) + waitingRequests.removeAll().filter { !$0.isGivenUp }
  }

  /// Records that the node has answered a request.
  func recordAnswer(byteCount: Int) {
    lastAnswer = .now
    window.received(byteCount: byteCount)
  }

  /// The number of the oldest unanswered request.
  var oldestNumber: UInt64 { window.oldestNumber }

  /// Returns the number of the oldest unanswered request if it must be reported to the coordinator
  /// now.
  func oldestToReport() -> UInt64? {
    guard oldestNumber >= lastReportedNumber + Self.maximumReportLag else { return nil }
    lastReportedNumber = oldestNumber
    return oldestNumber
  }

  /// Forgets the last report to the coordinator. Call this when the connection is lost, since the
  /// coordinator's next process has not received the reports.
  func resetReports() { lastReportedNumber = firstRequestNumber }
}
