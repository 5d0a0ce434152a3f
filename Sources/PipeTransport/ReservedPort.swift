import CZMQ
import Glibc
import PipeSupport
import PipeSystem

/// A port of this machine's that nobody else gets. Who connects waits until a socket is bound there.
package final class ReservedPort {
  /// `tcp://ADDRESS:PORT`, with an IPv4 address in numbers.
  package let endpoint: String
  /// It listens; -1 once a socket has it.
  private var descriptor: Int32

  private static let prefix = "tcp://"
  /// As many as libzmq lets wait. Unit: connections.
  private static let backlog: Int32 = 100

  /// Takes a port where somebody has just listened, whose connections may not have come to their ends.
  /// - Throws: ``TransportError`` of `bind` or `listen`: with `EADDRINUSE` where another process has the port, with
  ///   `EADDRNOTAVAIL` where no interface has the address, and with `EINVAL` where the endpoint is none.
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
    // As libzmq does: connections that have ended linger in the system.
    var isOn: Int32 = 1
    setsockopt(
      descriptor, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<Int32>.size))
    let isBound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
    // Two that only bind may have one port.
    guard isBound, listen(descriptor, Self.backlog) == 0 else {
      let code = errno
      close(descriptor)
      throw TransportError(call: isBound ? "listen" : "bind", endpoint: endpoint, code: code)
    }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// Hands the descriptor over to who closes it.
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
  /// Binds to a port that was taken before.
  package func bind(_ port: ReservedPort) throws(TransportError) {
    let descriptor = port.take()
    guard descriptor >= 0 else {
      throw TransportError(call: "bind", endpoint: port.endpoint, code: EBADF)
    }
    try set(ZMQ_USE_FD, descriptor)
    try bind(port.endpoint)
  }
}

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
