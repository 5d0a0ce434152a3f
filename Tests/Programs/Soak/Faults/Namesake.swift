import Glibc
import PipeRuntime

/// A program that connects with the routing id of another one, and stays silent.
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

  /// Returns whether it has connected since the last call.
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
