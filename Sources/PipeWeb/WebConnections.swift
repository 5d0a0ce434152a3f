import CMicroHTTPD
import Glibc
import PipeSupport

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
