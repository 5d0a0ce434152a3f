import Glibc

/// An address of one of this machine's network interfaces.
package struct InterfaceAddress: Hashable, Sendable {
  package var address: IPv4Address
  /// The bits of an address that identify the network.
  package var networkMask: UInt32
  /// Whether packets to this address stay on this machine.
  package var isLoopback: Bool

  package init(address: IPv4Address, mask: UInt32, isLoopback: Bool) {
    self.address = address
    self.networkMask = mask
    self.isLoopback = isLoopback
  }

  /// Whether the interface owns an address. On Linux, a loopback interface owns all addresses of
  /// its network.
  package func owns(_ other: IPv4Address) -> Bool {
    other == address
      || isLoopback && other.addressBits & networkMask == address.addressBits & networkMask
  }

  /// Returns the IPv4 addresses of all interfaces that are up, in the order in which the system
  /// lists them.
  package static func ofThisMachine() throws(SystemError) -> [InterfaceAddress] {
    var firstAddress: UnsafeMutablePointer<ifaddrs>?
    guard getifaddrs(&firstAddress) == 0 else { throw SystemError("getifaddrs", code: errno) }
    defer { freeifaddrs(firstAddress) }
    var addresses: [InterfaceAddress] = []
    var next = firstAddress
    while let interface = next?.pointee {
      next = interface.ifa_next
      guard interface.ifa_flags & UInt32(IFF_UP) != 0,
        let address = addressBits(interface.ifa_addr), let mask = addressBits(interface.ifa_netmask)
      else { continue }
      addresses.append(
        InterfaceAddress(
          address: IPv4Address(addressBits: address), mask: mask,
          isLoopback: interface.ifa_flags & UInt32(IFF_LOOPBACK) != 0))
    }
    return addresses
  }

  /// Returns the bits of an IPv4 address, the first byte in the highest bits; `nil` for other
  /// address families.
  private static func addressBits(_ address: UnsafeMutablePointer<sockaddr>?) -> UInt32? {
    guard let address, address.pointee.sa_family == sa_family_t(AF_INET) else { return nil }
    return address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
      UInt32(bigEndian: $0.pointee.sin_addr.s_addr)
    }
  }
}

/// A numeric IPv4 address.
package struct IPv4Address: Hashable, Sendable {
  /// The four bytes of the address. The first byte is in the highest bits.
  package let addressBits: UInt32

  package init(addressBits: UInt32) {
    self.addressBits = addressBits
  }

  /// Parses an address such as `127.0.0.1`: four numbers from 0 to 255 without leading zeros.
  package init?(_ text: String) {
    let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 4 else { return nil }
    var bits: UInt32 = 0
    for part in parts {
      guard let byte = Self.parseByte(part) else { return nil }
      bits = bits << 8 | UInt32(byte)
    }
    self.addressBits = bits
  }

  private static func parseByte(_ digits: Substring.UTF8View) -> UInt8? {
    guard let first = digits.first, first != UInt8(ascii: "0") || digits.count == 1 else {
      return nil
    }
    guard digits.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains) else { return nil }
    return UInt8(String(Substring(digits)))
  }
}

extension IPv4Address: CustomStringConvertible {
  package var description: String {
    [24, 16, 8, 0].map { String(addressBits >> UInt32($0) & 0xFF) }.joined(separator: ".")
  }
}
