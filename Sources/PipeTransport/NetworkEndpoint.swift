import Glibc

/// A `tcp://` endpoint to bind to, whose host may be a name.
package enum NetworkEndpoint {
  private static let prefix = "tcp://"

  /// Returns the endpoint with its host's name resolved to an address. libzmq resolves names when
  /// it connects, but not when it binds.
  /// - Returns: The endpoint unchanged if its host is a number, a network interface or an unknown name.
  package static func resolved(_ endpoint: String) -> String {
    guard endpoint.hasPrefix(prefix), let colon = endpoint.lastIndex(of: ":") else {
      return endpoint
    }
    let start = endpoint.index(endpoint.startIndex, offsetBy: prefix.count)
    guard start < colon else { return endpoint }
    let host = String(endpoint[start..<colon])
    guard host != "*", !host.hasPrefix("["), if_nametoindex(host) == 0,
      let number = address(of: host)
    else { return endpoint }
    return prefix + number + endpoint[colon...]
  }

  /// Whether a host's name resolves to an address on this host.
  package static func canResolve(host: String) -> Bool { address(of: host) != nil }

  /// The first IPv4 address of a host, as text.
  private static func address(of host: String) -> String? {
    var hints = addrinfo()
    hints.ai_family = AF_INET
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(host, nil, &hints, &found) == 0, let found else { return nil }
    defer { freeaddrinfo(found) }
    var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
    let code = getnameinfo(
      found.pointee.ai_addr, found.pointee.ai_addrlen, &text, socklen_t(text.count), nil, 0,
      NI_NUMERICHOST)
    guard code == 0 else { return nil }
    return String(
      decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }
}

/// Listening descriptors for libzmq sockets, which close them.
enum ListeningDescriptor {
  private static let prefix = "ipc://"
  /// The maximum number of pending connections, as in libzmq. Unit: connections.
  private static let backlog: Int32 = 100

  /// Listens at the path of an `ipc://` endpoint, and replaces any former listener.
  static func make(at endpoint: String) throws(TransportError) -> Int32 {
    let path = Array(endpoint.dropFirst(prefix.count).utf8)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let pathCapacity = MemoryLayout.size(ofValue: address.sun_path)
    guard endpoint.hasPrefix(prefix), path.count < pathCapacity else {
      throw TransportError(call: "bind", endpoint: endpoint, code: ENAMETOOLONG)
    }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path) }
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    let descriptor = socket(AF_UNIX, kind | Int32(SOCK_NONBLOCK.rawValue), 0)
    guard descriptor >= 0 else {
      throw TransportError(call: "socket", endpoint: endpoint, code: errno)
    }
    unlink(String(decoding: path, as: UTF8.self))
    let isBound = withUnsafePointer(to: address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
      }
    }
    guard isBound, listen(descriptor, backlog) == 0 else {
      defer { close(descriptor) }
      throw TransportError(call: isBound ? "listen" : "bind", endpoint: endpoint, code: errno)
    }
    return descriptor
  }
}
