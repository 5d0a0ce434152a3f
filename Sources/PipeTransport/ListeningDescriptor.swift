import Glibc

/// Listening sockets that libzmq is given, and closes with its own.
enum ListeningDescriptor {
  private static let prefix = "ipc://"
  /// As many as libzmq lets wait. Unit: connections.
  private static let backlog: Int32 = 100

  /// Listens at the path of an `ipc://` endpoint, in the place of whoever did so before.
  static func make(at endpoint: String) throws(TransportError) -> Int32 {
    let path = Array(endpoint.dropFirst(prefix.count).utf8)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let room = MemoryLayout.size(ofValue: address.sun_path)
    guard endpoint.hasPrefix(prefix), path.count < room else {
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
