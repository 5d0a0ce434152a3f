import Glibc
import PipeSupport
import PipeSystem

/// This process's connections over `ipc`, cut as a failing network would: for failpoints.
package enum LocalConnections {
  /// Shuts down every connection that has the endpoint at its near or its far end.
  ///
  /// What was sent may have arrived; what is sent from now on is lost, until both ends have noticed
  /// and connected anew. ZeroMQ is not asked, since a socket that is bound cannot part from a peer.
  /// - Parameter endpoint: An `ipc://` endpoint.
  /// - Returns: How many were cut.
  @discardableResult
  package static func cut(_ endpoint: String) -> Int {
    let prefix = "ipc://"
    guard endpoint.hasPrefix(prefix) else { return 0 }
    let path = String(endpoint.dropFirst(prefix.count))
    return FileSystem.entries(of: "/proc/self/fd").compactMap { Int32($0) }.count { descriptor in
      // A socket that listens has that name, too, and no far end.
      guard let far = name(descriptor, getpeername) else { return false }
      guard far == path || name(descriptor, getsockname) == path else { return false }
      return shutdown(descriptor, Int32(SHUT_RDWR)) == 0
    }
  }

  /// The path of a connection's end; empty where that has none, `nil` where there is no connection.
  private static func name(
    _ descriptor: Int32,
    _ ask: (Int32, UnsafeMutablePointer<sockaddr>?, UnsafeMutablePointer<socklen_t>?) -> Int32
  ) -> String? {
    var address = sockaddr_un()
    var size = socklen_t(MemoryLayout<sockaddr_un>.size)
    let code = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { ask(descriptor, $0, &size) }
    }
    guard code == 0, address.sun_family == sa_family_t(AF_UNIX) else { return nil }
    let bytes = withUnsafeBytes(of: address.sun_path) { path in
      path.prefix(Int(size) - MemoryLayout<sa_family_t>.size).prefix { $0 != 0 }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
