import CMicroHTTPD
import Glibc
import PipeSupport

/// The connections of a server, with their phases. The table selects connections to close: if there
/// are too many, or if a client takes too long to send its request.
///
/// A client that sends its request without delay, and reads its answer without delay, is never
/// disconnected because of other clients.
package struct ConnectionTable<Identity: Hashable> {
  private enum Phase {
    /// The request is incomplete.
    case receiving
    /// The client waits for its answer.
    case waiting
    /// The answer is being sent, as fast as the client reads.
    case sending
    /// The connection was shut down, but is not closed yet.
    case shuttingDown
  }

  private struct Entry {
    let socket: Int32
    var phase: Phase
    /// The time at which the current phase began.
    var since: ContinuousClock.Instant
  }

  private var entries: [Identity: Entry] = [:]
  private let limit: Int
  private let requestTime: Duration

  /// - Parameters:
  ///   - limit: The maximum number of connections. When this number is reached, a new connection
  ///     replaces an existing one.
  ///   - requestTime: The maximum time for a request to arrive completely.
  package init(limit: Int, requestTime: Duration) {
    self.limit = limit
    self.requestTime = requestTime
  }

  /// Adds a new connection.
  /// - Returns: The socket to shut down if there are too many connections: the socket of the client
  ///   that has been sending its request for the longest time. If no client is sending a request,
  ///   the socket of the client that has been reading its answer for the longest time. `nil` if all
  ///   clients are waiting for their answers; the limit is exceeded in this case.
  package mutating func opened(
    _ identity: Identity, socket: Int32, at now: ContinuousClock.Instant
  ) -> Int32? {
    let isFull = entries.values.count { $0.phase != .shuttingDown } >= limit
    let evicted = isFull ? longestLasting(in: .receiving) ?? longestLasting(in: .sending) : nil
    entries[identity] = Entry(socket: socket, phase: .receiving, since: now)
    return evicted.flatMap { shutDown(from: $0) }
  }

  /// Records that the request has arrived completely.
  package mutating func requestReceived(_ identity: Identity, at now: ContinuousClock.Instant) {
    enter(.waiting, identity, now)
  }

  /// Records that the server has begun to send the answer.
  package mutating func answered(_ identity: Identity, at now: ContinuousClock.Instant) {
    enter(.sending, identity, now)
  }

  /// Records that the answer was sent, so that the connection can receive the next request.
  package mutating func ended(_ identity: Identity, at now: ContinuousClock.Instant) {
    enter(.receiving, identity, now)
  }

  package mutating func closed(_ identity: Identity) { entries[identity] = nil }

  /// Returns the sockets of clients whose requests have not arrived in time. The caller must shut
  /// these sockets down.
  package mutating func overdue(at now: ContinuousClock.Instant) -> [Int32] {
    entries.filter { $0.value.phase == .receiving && now - $0.value.since >= requestTime }
      .keys.compactMap { shutDown(from: $0) }
  }

  private mutating func shutDown(from identity: Identity) -> Int32? {
    entries[identity]?.phase = .shuttingDown
    return entries[identity]?.socket
  }

  private mutating func enter(
    _ phase: Phase, _ identity: Identity, _ now: ContinuousClock.Instant
  ) {
    guard let entry = entries[identity], entry.phase != .shuttingDown else { return }
    entries[identity] = Entry(socket: entry.socket, phase: phase, since: now)
  }

  private func longestLasting(in phase: Phase) -> Identity? {
    entries.filter { $0.value.phase == phase }.min { $0.value.since < $1.value.since }?.key
  }
}

/// The connections of a server. This class only shuts sockets down. The HTTP library then closes
/// the connections.
final class WebConnections: Sendable {
  /// The table, whose keys are pointers of the HTTP library. The table is sendable, since the
  /// pointers are only compared.
  private struct Table: @unchecked Sendable { var value: ConnectionTable<OpaquePointer> }

  private let table: Locked<Table>

  init(_ limits: WebServer.Limits) {
    table = Locked(
      Table(
        value: ConnectionTable(
          limit: Int(limits.connections), requestTime: .seconds(limits.requestSeconds))))
  }

  /// Adds a new connection. If there are too many connections, shuts an existing one down.
  func open(_ connection: OpaquePointer) {
    let socket = pr_socket(connection)
    shutDownConnections { table in
      table.opened(connection, socket: socket, at: .now).map { [$0] } ?? []
    }
  }

  func change(_ body: (inout ConnectionTable<OpaquePointer>) -> Void) {
    table.withLock { body(&$0.value) }
  }

  /// Starts a task that shuts down connections whose requests take too long. The task runs until it
  /// is cancelled.
  func watch() -> Task<Void, Never> {
    Task {
      while (try? await Task.sleep(for: .milliseconds(500))) != nil {
        shutDownConnections { $0.overdue(at: .now) }
      }
    }
  }

  private func shutDownConnections(_ body: (inout ConnectionTable<OpaquePointer>) -> [Int32]) {
    table.withLock { table in
      // Before the library closes a socket, it calls back, and that callback waits for this lock.
      // So the descriptor cannot have been closed and reused.
      for socket in body(&table.value) { shutdown(socket, Int32(SHUT_RDWR)) }
    }
  }
}
