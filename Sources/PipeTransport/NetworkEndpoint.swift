import Glibc

/// Functions that resolve the host name in a `tcp://` endpoint.
package enum NetworkEndpoint {
  private static let prefix = "tcp://"

  /// Replaces the host name in an endpoint by its IPv4 address. libzmq resolves host names when it
  /// connects a socket, but not when it binds a socket.
  /// - Returns: The resolved endpoint; the unchanged endpoint if its host is a numeric address, a
  ///   network interface or an unknown name.
  package static func resolvedEndpoint(_ endpoint: String) -> String {
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

  /// Whether this host can resolve the host name to an IPv4 address.
  package static func canResolve(host: String) -> Bool { address(of: host) != nil }

  /// Returns the first IPv4 address of a host, as text; `nil` if the name cannot be resolved.
  private static func address(of host: String) -> String? {
    var hints = addrinfo()
    hints.ai_family = AF_INET
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var addressList: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(host, nil, &hints, &addressList) == 0, let addressList else { return nil }
    defer { freeaddrinfo(addressList) }
    var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
    let code = getnameinfo(
      addressList.pointee.ai_addr, addressList.pointee.ai_addrlen, &text, socklen_t(text.count),
      nil, 0,
      NI_NUMERICHOST)
    guard code == 0 else { return nil }
    return String(
      decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }
}

/// Creates listening descriptors for libzmq sockets. A socket owns the descriptor that it gets.
enum ListeningDescriptor {
  private static let prefix = "ipc://"
  /// The maximum number of pending connections, as in libzmq. Unit: connections.
  private static let listenBacklog: Int32 = 100

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
    guard isBound, listen(descriptor, listenBacklog) == 0 else {
      defer { close(descriptor) }
      throw TransportError(call: isBound ? "listen" : "bind", endpoint: endpoint, code: errno)
    }
    return descriptor
  }
}
