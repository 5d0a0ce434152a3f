import Glibc
import PipeSupport
import PipeSystem

/// This process's connections over `ipc` and `tcp`, cut as a failing network would: for failpoints.
package enum LocalConnections {
  /// Shuts down every connection that has the endpoint at its near or its far end.
  ///
  /// What was sent may have arrived; what is sent from now on is lost, until both ends have noticed
  /// and connected anew. ZeroMQ is not asked, since a socket that is bound cannot part from a peer.
  /// - Parameter endpoint: An `ipc://` endpoint, or a `tcp://` one whose address is a number.
  /// - Returns: How many were cut.
  @discardableResult
  package static func cut(_ endpoint: String) -> Int {
    FileSystem.entries(of: "/proc/self/fd").compactMap { Int32($0) }.count { descriptor in
      // A socket that listens has that name, too, and no far end.
      guard let far = name(descriptor, getpeername) else { return false }
      guard far == endpoint || name(descriptor, getsockname) == endpoint else { return false }
      return shutdown(descriptor, Int32(SHUT_RDWR)) == 0
    }
  }

  /// What libzmq would call a connection's end; without a path where that has none, `nil` where there is no
  /// connection.
  private static func name(
    _ descriptor: Int32,
    _ ask: (Int32, UnsafeMutablePointer<sockaddr>?, UnsafeMutablePointer<socklen_t>?) -> Int32
  ) -> String? {
    var storage = sockaddr_storage()
    var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return withUnsafeMutablePointer(to: &storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        guard ask(descriptor, address, &size) == 0 else { return nil }
        let bytes = UnsafeRawBufferPointer(start: address, count: Int(size))
        switch Int32(address.pointee.sa_family) {
        case AF_UNIX: return "ipc://\(path(bytes))"
        case AF_INET, AF_INET6: return network(address, size)
        default: return nil
        }
      }
    }
  }

  private static func path(_ address: UnsafeRawBufferPointer) -> String {
    let path = address.dropFirst(MemoryLayout<sa_family_t>.size).prefix { $0 != 0 }
    return String(decoding: path, as: UTF8.self)
  }

  private static func network(
    _ address: UnsafePointer<sockaddr>, _ size: socklen_t
  ) -> String? {
    var host = [CChar](repeating: 0, count: Int(NI_MAXHOST))
    var port = [CChar](repeating: 0, count: Int(NI_MAXSERV))
    let code = getnameinfo(
      address, size, &host, socklen_t(host.count), &port, socklen_t(port.count),
      NI_NUMERICHOST | NI_NUMERICSERV)
    guard code == 0 else { return nil }
    let (name, number) = (text(host), text(port))
    return Int32(address.pointee.sa_family) == AF_INET6
      ? "tcp://[\(name)]:\(number)" : "tcp://\(name):\(number)"
  }

  private static func text(_ characters: [CChar]) -> String {
    String(decoding: characters.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }
}
