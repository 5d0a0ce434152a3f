import Glibc

/// An IPv4 or IPv6 address with a port.
package struct SocketAddress {
  private var storage = sockaddr_storage()
  private var byteCount: socklen_t

  /// Parses a numeric address; `nil` for other texts.
  /// - Parameter text: An address such as `127.0.0.1` or `::1`.
  package init?(_ text: String, _ port: UInt16) {
    var four = in_addr()
    var six = in6_addr()
    if inet_pton(AF_INET, text, &four) == 1 {
      byteCount = socklen_t(MemoryLayout<sockaddr_in>.size)
      let address = sockaddr_in(
        sin_family: sa_family_t(AF_INET), sin_port: port.bigEndian, sin_addr: four,
        sin_zero: (0, 0, 0, 0, 0, 0, 0, 0))
      withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: address, as: sockaddr_in.self) }
    } else if inet_pton(AF_INET6, text, &six) == 1 {
      byteCount = socklen_t(MemoryLayout<sockaddr_in6>.size)
      let address = sockaddr_in6(
        sin6_family: sa_family_t(AF_INET6), sin6_port: port.bigEndian, sin6_flowinfo: 0,
        sin6_addr: six, sin6_scope_id: 0)
      withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: address, as: sockaddr_in6.self) }
    } else {
      return nil
    }
  }

  var family: Int32 { Int32(storage.ss_family) }
  private var isIPv6: Bool { family == AF_INET6 }

  /// The port. Its offset is the same in the structures of IPv4 and IPv6 addresses.
  var port: UInt16 {
    withUnsafeBytes(of: storage) { UInt16(bigEndian: $0.load(fromByteOffset: 2, as: UInt16.self)) }
  }

  /// The bytes of the address, without the port.
  private var bytes: [UInt8] {
    withUnsafeBytes(of: storage) { storage in
      isIPv6 ? Array(storage[8..<24]) : Array(storage[4..<8])
    }
  }

  /// Whether the address is reachable only from this host.
  package var isLoopback: Bool {
    isIPv6 ? bytes.dropLast().allSatisfy { $0 == 0 } && bytes.last == 1 : bytes[0] == 127
  }

  /// Whether the address is the wildcard address, at which a server listens on all interfaces.
  package var isAny: Bool { bytes.allSatisfy { $0 == 0 } }

  /// The address in the form of a URL: `127.0.0.1`, `[::1]`.
  package var host: String {
    var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    _ = bytes.withUnsafeBytes {
      inet_ntop(family, $0.baseAddress, &text, socklen_t(text.count))
    }
    let name = String(decoding: text.prefix { $0 != 0 }.map(UInt8.init), as: UTF8.self)
    return isIPv6 ? "[\(name)]" : name
  }

  mutating func withPointer<Result>(
    _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
  ) -> Result {
    withUnsafePointer(to: storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, byteCount) }
    }
  }

  mutating func readName(of descriptor: Int32) {
    withUnsafeMutablePointer(to: &storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        _ = getsockname(descriptor, $0, &byteCount)
      }
    }
  }
}
