import CZMQ
import Glibc
import PipeSupport
import PipeSystem

/// A port of this host that no other process can get. Peers that connect wait until a socket is
/// bound to the port.
package final class ReservedPort {
  /// `tcp://ADDRESS:PORT`, with an IPv4 address in numbers.
  package let endpoint: String
  /// The listening descriptor; -1 once a socket has taken it over.
  private var descriptor: Int32

  private static let prefix = "tcp://"
  /// The maximum number of pending connections, as in libzmq. Unit: connections.
  private static let backlog: Int32 = 100

  /// Reserves a port, even if connections of a former listener have not ended completely.
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
    // As libzmq does: the system keeps ended connections for a while.
    var isOn: Int32 = 1
    setsockopt(
      descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<Int32>.size))
    let isBound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
    // Two sockets that only bind may share a port. Only one can listen.
    guard isBound, listen(descriptor, Self.backlog) == 0 else {
      let code = errno
      close(descriptor)
      throw TransportError(call: isBound ? "listen" : "bind", endpoint: endpoint, code: code)
    }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// Hands over the descriptor. The receiver closes it.
  fileprivate func take() -> Int32 {
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
  /// Binds to a reserved port.
  package func bind(_ port: ReservedPort) throws(TransportError) {
    let descriptor = port.take()
    guard descriptor >= 0 else {
      throw TransportError(call: "bind", endpoint: port.endpoint, code: EBADF)
    }
    try set(ZMQ_USE_FD, descriptor)
    try bind(port.endpoint)
  }
}

/// This process's connections over `ipc` and `tcp`, which failpoints cut as a failing network would.
package enum LocalConnections {
  /// Shuts down every connection that has the endpoint at its near or its far end.
  ///
  /// Messages sent before may have arrived. Messages sent afterwards are lost until both ends have
  /// noticed and reconnected. This does not go through ZeroMQ, since a bound socket cannot
  /// disconnect a peer.
  /// - Parameter endpoint: An `ipc://` endpoint, or a `tcp://` one whose address is a number.
  /// - Returns: The number of connections that were cut.
  @discardableResult
  package static func cut(_ endpoint: String) -> Int {
    FileSystem.entries(of: "/proc/self/fd").compactMap { Int32($0) }.count { descriptor in
      // A listening socket has that name, too, but no far end.
      guard let far = name(descriptor, getpeername) else { return false }
      guard far == endpoint || name(descriptor, getsockname) == endpoint else { return false }
      return shutdown(descriptor, Int32(SHUT_RDWR)) == 0
    }
  }

  /// Returns libzmq's name for one end of a connection: without a path if the end has none, `nil`
  /// if there is no connection.
  private static func name(
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
