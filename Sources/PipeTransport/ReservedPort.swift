import CZMQ
import Glibc
import PipeSupport
import PipeSystem

/// A TCP port at which this process already listens, so that no other process can bind to the port.
/// Peers can connect, and then wait until a socket is bound to the port.
package final class ReservedPort {
  /// The endpoint of the port: `tcp://ADDRESS:PORT`, with a numeric IPv4 address.
  package let endpoint: String
  /// The listening descriptor; -1 after a socket has taken over the descriptor.
  private var descriptor: Int32

  private static let prefix = "tcp://"
  /// The maximum number of pending connections, as in libzmq. Unit: connections.
  private static let listenBacklog: Int32 = 100

  /// Reserves a port, even if the system still keeps closed connections of an earlier listener.
  /// - Throws: ``TransportError`` of `bind` or `listen`: `EADDRINUSE` if another process has the
  ///   port, `EADDRNOTAVAIL` if no interface has the address, `EINVAL` if the endpoint is
  ///   malformed.
  package init(_ endpoint: String) throws(TransportError) {
    self.endpoint = endpoint
    guard var address = Self.address(of: endpoint) else {
      throw TransportError(call: "bind", endpoint: endpoint, code: EINVAL)
    }
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    descriptor = socket(AF_INET, kind | Int32(SOCK_NONBLOCK.rawValue), 0)
    guard descriptor >= 0 else {
      throw TransportError(call: "socket", endpoint: endpoint, code: errno)
    }
    // libzmq also sets this option. Without it, closed connections would block the port for a
    // while.
    var isOn: Int32 = 1
    setsockopt(
      descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<Int32>.size))
    let isBound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
    // Two sockets can bind to the same port, but only one of them can listen.
    guard isBound, listen(descriptor, Self.listenBacklog) == 0 else {
      let code = errno
      close(descriptor)
      throw TransportError(call: isBound ? "listen" : "bind", endpoint: endpoint, code: code)
    }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// Returns the descriptor, which the caller then owns and must close.
  fileprivate func releaseDescriptor() -> Int32 {
    defer { descriptor = -1 }
    return descriptor
  }

  private static func address(of endpoint: String) -> sockaddr_in? {
    guard endpoint.hasPrefix(prefix), let colon = endpoint.lastIndex(of: ":"),
      let port = UInt16(endpoint[endpoint.index(after: colon)...]), port > 0
    else { return nil }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    let host = String(endpoint[..<colon].dropFirst(prefix.count))
    return inet_pton(AF_INET, host, &address.sin_addr) == 1 ? address : nil
  }
}

extension Socket {
  /// Binds the socket to a reserved port. The socket takes over the port's descriptor, so only one
  /// socket can bind to the port.
  package func bind(_ port: ReservedPort) throws(TransportError) {
    let descriptor = port.releaseDescriptor()
    guard descriptor >= 0 else {
      throw TransportError(call: "bind", endpoint: port.endpoint, code: EBADF)
    }
    try set(ZMQ_USE_FD, descriptor)
    try bind(port.endpoint)
  }
}

/// Shuts down `ipc` and `tcp` connections of this process, for failpoints that simulate a network
/// failure.
package enum LocalConnections {
  /// Shuts down every connection whose local or remote address is the endpoint.
  ///
  /// Messages sent before the shutdown may have arrived. Messages sent afterwards are lost until
  /// both ends have detected the failure and reconnected. The descriptors are shut down directly,
  /// since libzmq cannot disconnect a peer from a bound socket.
  /// - Parameter endpoint: An `ipc://` endpoint, or a `tcp://` endpoint with a numeric address.
  /// - Returns: The number of connections that were cut.
  @discardableResult
  package static func cut(_ endpoint: String) -> Int {
    FileSystem.entryNames(of: "/proc/self/fd").compactMap { Int32($0) }.count { descriptor in
      // A listening socket has the same local address, but no remote address.
      guard let far = endpointName(descriptor, getpeername) else { return false }
      guard far == endpoint || endpointName(descriptor, getsockname) == endpoint else {
        return false
      }
      return shutdown(descriptor, Int32(SHUT_RDWR)) == 0
    }
  }

  /// Returns the endpoint of one end of a connection, as libzmq writes it; `nil` if the descriptor
  /// is not connected. For an end of an `ipc` connection without a path, the path in the endpoint
  /// is empty.
  private static func endpointName(
    _ descriptor: Int32,
    _ getName: (Int32, UnsafeMutablePointer<sockaddr>?, UnsafeMutablePointer<socklen_t>?) -> Int32
  ) -> String? {
    var storage = sockaddr_storage()
    var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return withUnsafeMutablePointer(to: &storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        guard getName(descriptor, address, &size) == 0 else { return nil }
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
