import Glibc

/// A `tcp://` endpoint to bind to, whose host may be a name.
package enum NetworkEndpoint {
  private static let prefix = "tcp://"

  /// The endpoint with the address that the host's name stands for: libzmq looks names up to connect, and not to
  /// bind.
  /// - Returns: The endpoint as it is, where its host is a number, a network interface or a name that is not known.
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

  /// Whether a host's name stands for an address here.
  package static func isKnown(host: String) -> Bool { address(of: host) != nil }

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
