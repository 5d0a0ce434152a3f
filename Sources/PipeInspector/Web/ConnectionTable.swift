import CMicroHTTPD
import Glibc
import PipeSupport

/// Which connections a server has, and what each of them is at: from which it parts where there are too many,
/// or where one has been slow to ask for too long.
///
/// A client that asks at once, and reads what it is told, is never parted from because of others who are slow.
package struct ConnectionTable<Identity: Hashable> {
  private enum Phase {
    /// A request has not come, or not all of it.
    case receiving
    /// The client waits for its answer.
    case waiting
    /// The answer is on its way, as quickly as the client reads.
    case sending
    /// It is parted from, and not closed yet.
    case parting
  }

  private struct Entry {
    let socket: Int32
    var phase: Phase
    /// When it has come into its phase.
    var since: ContinuousClock.Instant
  }

  private var entries: [Identity: Entry] = [:]
  private let limit: Int
  private let requestTime: Duration

  /// - Parameters:
  ///   - limit: Connections that it may have before it parts from any.
  ///   - requestTime: How long a request may take to come, as a whole.
  package init(limit: Int, requestTime: Duration) {
    self.limit = limit
    self.requestTime = requestTime
  }

  /// Takes a new connection in.
  /// - Returns: The socket to be shut down, where there are too many: of the client that has been slow to ask
  ///   for the longest time, or else to read. Where all wait for their answers there is one more for a while.
  package mutating func opened(
    _ identity: Identity, socket: Int32, at now: ContinuousClock.Instant
  ) -> Int32? {
    let isFull = entries.values.count { $0.phase != .parting } >= limit
    let leaving = isFull ? longest(in: .receiving) ?? longest(in: .sending) : nil
    entries[identity] = Entry(socket: socket, phase: .receiving, since: now)
    return leaving.flatMap { part(from: $0) }
  }

  /// The request has come as a whole.
  package mutating func asked(_ identity: Identity, at now: ContinuousClock.Instant) {
    enter(.waiting, identity, now)
  }

  /// Its answer is given to the client.
  package mutating func answered(_ identity: Identity, at now: ContinuousClock.Instant) {
    enter(.sending, identity, now)
  }

  /// The request is over, and another one may come.
  package mutating func ended(_ identity: Identity, at now: ContinuousClock.Instant) {
    enter(.receiving, identity, now)
  }

  package mutating func closed(_ identity: Identity) { entries[identity] = nil }

  /// The sockets to be shut down, of those whose requests should have come by now.
  package mutating func overdue(at now: ContinuousClock.Instant) -> [Int32] {
    entries.filter { $0.value.phase == .receiving && now - $0.value.since >= requestTime }
      .keys.compactMap { part(from: $0) }
  }

  private mutating func part(from identity: Identity) -> Int32? {
    entries[identity]?.phase = .parting
    return entries[identity]?.socket
  }

  private mutating func enter(
    _ phase: Phase, _ identity: Identity, _ now: ContinuousClock.Instant
  ) {
    guard let entry = entries[identity], entry.phase != .parting else { return }
    entries[identity] = Entry(socket: entry.socket, phase: phase, since: now)
  }

  private func longest(in phase: Phase) -> Identity? {
    entries.filter { $0.value.phase == phase }.min { $0.value.since < $1.value.since }?.key
  }
}

/// The connections of a server: those that it parts from are shut down, and the library then closes them.
final class WebConnections: Sendable {
  /// The library's pointers, which are compared and not used.
  private struct Table: @unchecked Sendable { var value: ConnectionTable<OpaquePointer> }

  private let table: Locked<Table>

  init(_ limits: WebServer.Limits) {
    table = Locked(
      Table(
        value: ConnectionTable(
          limit: Int(limits.connections), requestTime: .seconds(limits.requestSeconds))))
  }

  /// Takes a new connection in, and parts from one where there are too many.
  func open(_ connection: OpaquePointer) {
    let socket = pr_socket(connection)
    partFrom { table in table.opened(connection, socket: socket, at: .now).map { [$0] } ?? [] }
  }

  func change(_ body: (inout ConnectionTable<OpaquePointer>) -> Void) {
    table.withLock { body(&$0.value) }
  }

  /// Parts from those whose requests take too long, until it is cancelled.
  func watch() -> Task<Void, Never> {
    Task {
      while (try? await Task.sleep(for: .milliseconds(500))) != nil {
        partFrom { $0.overdue(at: .now) }
      }
    }
  }

  private func partFrom(_ body: (inout ConnectionTable<OpaquePointer>) -> [Int32]) {
    table.withLock { table in
      // The library closes a socket after it has told so, which waits for this lock: it is no other's yet.
      for socket in body(&table.value) { shutdown(socket, Int32(SHUT_RDWR)) }
    }
  }
}
