import Glibc
import PipeSystem

/// A socket that clients of a web server connect to.
package struct WebListener: ~Copyable {
  private let descriptor: Descriptor
  /// Where it listens: `127.0.0.1:9464`, `[::1]:9464`.
  package let place: String
  /// The port that it has got.
  package let port: UInt16

  /// Listens at an address of this machine.
  /// - Parameters:
  ///   - address: In numbers, of IP version 4 or 6.
  ///   - port: 0 for any that is free.
  package init(address: String, port: UInt16) throws(WebListenerError) {
    guard var found = SocketAddress(address, port) else { throw .noAddress(address) }
    let descriptor = socket(found.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw .failed(SystemError("socket", on: address, code: errno)) }
    do throws(WebListenerError) {
      // Who comes back to a port may have it while old connections to it are fading.
      var yes: Int32 = 1
      setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
      guard found.withPointer({ bind(descriptor, $0, $1) }) == 0 else {
        throw .of(errno, "bind", address, port)
      }
      guard listen(descriptor, Self.backlog) == 0 else {
        throw .of(errno, "listen", address, port)
      }
      found.readName(of: descriptor)
    } catch {
      close(descriptor)
      throw error
    }
    self.descriptor = Descriptor(number: descriptor)
    self.port = found.port
    place = (address.contains(":") ? "[\(address)]" : address) + ":\(found.port)"
  }

  /// Connections that wait to be taken. Unit: connections.
  private static let backlog: Int32 = 16

  /// Hands the socket over, which the taker has to close.
  consuming func take() -> Int32 { descriptor.take() }

  /// A socket that is closed where nobody takes it.
  private struct Descriptor: ~Copyable {
    let number: Int32

    consuming func take() -> Int32 {
      let number = number
      discard self
      return number
    }

    deinit { close(number) }
  }
}

/// Why a web server cannot listen.
package enum WebListenerError: Error, Hashable {
  /// The text is no address.
  case noAddress(String)
  /// Somebody else listens there.
  case inUse(address: String, port: UInt16)
  /// The address is none of this machine's.
  case elsewhere(String)
  /// A port below 1024, and no right to it.
  case notAllowed(port: UInt16)
  case failed(SystemError)

  fileprivate static func of(
    _ code: Int32, _ call: String, _ address: String, _ port: UInt16
  ) -> Self {
    switch code {
    case EADDRINUSE: .inUse(address: address, port: port)
    case EADDRNOTAVAIL: .elsewhere(address)
    case EACCES: .notAllowed(port: port)
    default: .failed(SystemError(call, on: "\(address):\(port)", code: code))
    }
  }
}

extension WebListenerError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .noAddress(let text):
      "'\(text)' is no address: write it in numbers, as in 127.0.0.1 or ::1"
    case .inUse(let address, let port):
      "port \(port) of \(address) is in use: choose another one with --port, or end what listens there, "
        + "which 'ss -ltnp' shows"
    case .elsewhere(let address): "\(address) is no address of this machine: 'ip addr' shows those"
    case .notAllowed(let port):
      "port \(port) is for root alone: choose one from 1024 on with --port"
    case .failed(let error): "cannot listen: \(error)"
    }
  }
}

/// An address of IP version 4 or 6, with a port.
private struct SocketAddress {
  private var storage = sockaddr_storage()
  private var byteCount: socklen_t

  init?(_ text: String, _ port: UInt16) {
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

  /// Both kinds have it at the same place.
  var port: UInt16 {
    withUnsafeBytes(of: storage) { UInt16(bigEndian: $0.load(fromByteOffset: 2, as: UInt16.self)) }
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
