import CMicroHTTPD
import Glibc
import PipeSupport

/// The connections of a server, with their phases. It selects the connections to close: when there
/// are too many, or when a client takes too long to send its request.
///
/// A client that sends its request at once and reads its answer is never disconnected because of
/// slow clients.
package struct ConnectionTable<Identity: Hashable> {
  private enum Phase {
    /// The request has not arrived completely.
    case receiving
    /// The client waits for its answer.
    case waiting
    /// The answer is being sent, as fast as the client reads.
    case sending
    /// The connection was shut down, and is not closed yet.
    case shuttingDown
  }

  private struct Entry {
    let socket: Int32
    var phase: Phase
    /// The start of the current phase.
    var since: ContinuousClock.Instant
  }

  private var entries: [Identity: Entry] = [:]
  private let limit: Int
  private let requestTime: Duration

  /// - Parameters:
  ///   - limit: The number of connections above which one is closed for each new one.
  ///   - requestTime: The longest time for a complete request to arrive.
  package init(limit: Int, requestTime: Duration) {
    self.limit = limit
    self.requestTime = requestTime
  }

  /// Adds a new connection.
  /// - Returns: The socket to shut down, if there are too many connections. It belongs to the client
  ///   that has been sending its request for the longest time, or else reading its answer. If all
  ///   clients wait for their answers, the limit is exceeded for a while.
  package mutating func opened(
    _ identity: Identity, socket: Int32, at now: ContinuousClock.Instant
  ) -> Int32? {
    let isFull = entries.values.count { $0.phase != .shuttingDown } >= limit
    let evicted = isFull ? longestLasting(in: .receiving) ?? longestLasting(in: .sending) : nil
    entries[identity] = Entry(socket: socket, phase: .receiving, since: now)
    return evicted.flatMap { shutDown(from: $0) }
  }

  /// Notes that the complete request has arrived.
  package mutating func requestReceived(_ identity: Identity, at now: ContinuousClock.Instant) {
    enter(.waiting, identity, now)
  }

  /// Notes that the answer is being sent to the client.
  package mutating func answered(_ identity: Identity, at now: ContinuousClock.Instant) {
    enter(.sending, identity, now)
  }

  /// Notes that the request is complete, and another one may follow.
  package mutating func ended(_ identity: Identity, at now: ContinuousClock.Instant) {
    enter(.receiving, identity, now)
  }

  package mutating func closed(_ identity: Identity) { entries[identity] = nil }

  /// Returns the sockets to shut down because their requests are overdue.
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

/// The connections of a server. It shuts connections down, and the library then closes them.
final class WebConnections: Sendable {
  /// The library's pointers, which are only compared.
  private struct Table: @unchecked Sendable { var value: ConnectionTable<OpaquePointer> }

  private let table: Locked<Table>

  init(_ limits: WebServer.Limits) {
    table = Locked(
      Table(
        value: ConnectionTable(
          limit: Int(limits.connections), requestTime: .seconds(limits.requestSeconds))))
  }

  /// Adds a new connection, and shuts one down if there are too many.
  func open(_ connection: OpaquePointer) {
    let socket = pr_socket(connection)
    shutDownConnections { table in
      table.opened(connection, socket: socket, at: .now).map { [$0] } ?? []
    }
  }

  func change(_ body: (inout ConnectionTable<OpaquePointer>) -> Void) {
    table.withLock { body(&$0.value) }
  }

  /// Shuts down connections whose requests take too long, until the task is cancelled.
  func watch() -> Task<Void, Never> {
    Task {
      while (try? await Task.sleep(for: .milliseconds(500))) != nil {
        shutDownConnections { $0.overdue(at: .now) }
      }
    }
  }

  private func shutDownConnections(_ body: (inout ConnectionTable<OpaquePointer>) -> [Int32]) {
    table.withLock { table in
      // The library announces a close before it closes the socket, and that callback waits for this
      // lock. So the descriptor cannot have been reused yet.
      for socket in body(&table.value) { shutdown(socket, Int32(SHUT_RDWR)) }
    }
  }
}
