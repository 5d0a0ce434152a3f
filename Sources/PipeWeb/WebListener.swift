import Glibc
import PipeSystem

/// A socket that clients of a web server connect to.
package struct WebListener: ~Copyable {
  private let descriptor: Descriptor
  /// Where it listens: `127.0.0.1:9464`, `[::1]:9464`, `/run/page.socket`.
  package let place: String
  /// The port that it has got; 0 of one in the file system.
  package let port: UInt16
  /// Its name in the file system, where it has one.
  let file: SocketFile?

  /// Listens at an address of this machine.
  /// - Parameters:
  ///   - address: In numbers, of IP version 4 or 6.
  ///   - port: 0 for any that is free.
  package init(address: String, port: UInt16) throws(WebListenerError) {
    guard var found = SocketAddress(address, port) else { throw .noAddress(address) }
    let descriptor = try Descriptor(found.family, on: address)
    // Who comes back to a port may have it while old connections to it are fading.
    var yes: Int32 = 1
    setsockopt(
      descriptor.number, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
    guard found.withPointer({ bind(descriptor.number, $0, $1) }) == 0 else {
      throw .of(errno, "bind", address, port)
    }
    guard listen(descriptor.number, Self.backlog) == 0 else {
      throw .of(errno, "listen", address, port)
    }
    found.readName(of: descriptor.number)
    self.port = found.port
    place = found.host + ":\(found.port)"
    file = nil
    self.descriptor = descriptor
  }

  /// Listens at a socket in the file system, which only its owner may connect to; one that is left of a
  /// process that has died is replaced.
  package init(socket path: String) throws(WebListenerError) {
    let descriptor = try Descriptor(AF_UNIX, on: path)
    file = try SocketFile(path, of: descriptor.number, backlog: Self.backlog)
    place = FileSystem.absolute(path)
    port = 0
    self.descriptor = descriptor
  }

  /// Connections that wait to be taken. Unit: connections.
  private static let backlog: Int32 = 16

  /// Hands the socket over, which the taker has to close.
  consuming func take() -> Int32 { descriptor.take() }

  /// A socket that is closed where nobody takes it.
  private struct Descriptor: ~Copyable {
    let number: Int32

    init(_ family: Int32, on subject: String) throws(WebListenerError) {
      let made = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
      guard made >= 0 else { throw .failed(SystemError("socket", on: subject, code: errno)) }
      number = made
    }

    consuming func take() -> Int32 {
      let number = number
      discard self
      return number
    }

    deinit { close(number) }
  }
}
