import Glibc
import PipeRuntime

/// A client that connects with the routing id of another process, and then sends nothing.
struct Namesake {
  private let socket: Socket
  private let connections: ConnectionMonitor

  init(_ name: String, at endpoint: String) throws {
    let context = Context()
    socket = try Socket(.dealer, in: context)
    try socket.setRoutingID(name)
    connections = try ConnectionMonitor(of: socket, in: context)
    try socket.connect(endpoint)
  }

  /// Returns whether the client has connected since the last call.
  func hasConnected() -> Bool {
    var hasConnected = false
    connections.read { hasConnected = hasConnected || $0 == .connected }
    return hasConnected
  }

  func disconnect() {
    socket.close()
    connections.socket.close()
  }
}
