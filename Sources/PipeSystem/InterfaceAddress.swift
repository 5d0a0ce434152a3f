import Glibc

/// An address of one of this machine's network interfaces.
package struct InterfaceAddress: Hashable, Sendable {
  package var address: IPv4Address
  /// The bits of an address that identify the network.
  package var mask: UInt32
  /// Whether packets to this address stay on this machine.
  package var isLoopback: Bool

  package init(address: IPv4Address, mask: UInt32, isLoopback: Bool) {
    self.address = address
    self.mask = mask
    self.isLoopback = isLoopback
  }

  /// Whether the interface owns an address. On Linux, a loopback interface owns all addresses of
  /// its network.
  package func owns(_ other: IPv4Address) -> Bool {
    other == address || isLoopback && other.number & mask == address.number & mask
  }

  /// Returns the IPv4 addresses of all interfaces that are up, in the order in which the system
  /// lists them.
  package static func ofThisMachine() throws(SystemError) -> [InterfaceAddress] {
    var first: UnsafeMutablePointer<ifaddrs>?
    guard getifaddrs(&first) == 0 else { throw SystemError("getifaddrs", code: errno) }
    defer { freeifaddrs(first) }
    var found: [InterfaceAddress] = []
    var next = first
    while let interface = next?.pointee {
      next = interface.ifa_next
      guard interface.ifa_flags & UInt32(IFF_UP) != 0,
        let address = number(interface.ifa_addr), let mask = number(interface.ifa_netmask)
      else { continue }
      found.append(
        InterfaceAddress(
          address: IPv4Address(number: address), mask: mask,
          isLoopback: interface.ifa_flags & UInt32(IFF_LOOPBACK) != 0))
    }
    return found
  }

  /// Returns the bytes of an IPv4 address; `nil` for another address family.
  private static func number(_ address: UnsafeMutablePointer<sockaddr>?) -> UInt32? {
    guard let address, address.pointee.sa_family == sa_family_t(AF_INET) else { return nil }
    return address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
      UInt32(bigEndian: $0.pointee.sin_addr.s_addr)
    }
  }
}

/// A numeric IPv4 address.
package struct IPv4Address: Hashable, Sendable {
  /// The four bytes of the address, the first byte in the highest bits.
  package let number: UInt32

  package init(number: UInt32) {
    self.number = number
  }

  /// Parses four numbers from 0 to 255 without leading zeros: `127.0.0.1`.
  package init?(_ text: String) {
    let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 4 else { return nil }
    var number: UInt32 = 0
    for part in parts {
      guard let byte = Self.byte(part) else { return nil }
      number = number << 8 | UInt32(byte)
    }
    self.number = number
  }

  private static func byte(_ digits: Substring.UTF8View) -> UInt8? {
    guard let first = digits.first, first != UInt8(ascii: "0") || digits.count == 1 else {
      return nil
    }
    guard digits.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains) else { return nil }
    return UInt8(String(Substring(digits)))
  }
}

extension IPv4Address: CustomStringConvertible {
  package var description: String {
    [24, 16, 8, 0].map { String(number >> UInt32($0) & 0xFF) }.joined(separator: ".")
  }
}
