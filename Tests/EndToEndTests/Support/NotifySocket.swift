import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// The socket of a service manager, which receives notifications as systemd does.
final class NotifySocket {
  let path: String
  private let descriptor: Int32
  /// The datagrams that were read since the last ``clear()``.
  private(set) var messages: [String] = []

  init(in directory: TestDirectory) throws {
    path = directory.path + "/notify"
    descriptor = socket(
      AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    try #require(path.utf8.count < MemoryLayout.size(ofValue: address.sun_path))
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let isBound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
      }
    }
    try #require(isBound)
  }

  deinit { close(descriptor) }

  /// Reads the datagrams that have arrived.
  func read() {
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = recv(descriptor, &buffer, buffer.count, 0)
      guard count >= 0 else { return }
      messages.append(String(decoding: buffer.prefix(count), as: UTF8.self))
    }
  }

  /// Discards the datagrams that have arrived.
  func clear() {
    read()
    messages = []
  }

  /// Waits for a datagram with an assignment.
  func await(_ assignment: String, within limit: Duration = .seconds(60)) async throws {
    let found: Bool? = try await poll(every: .milliseconds(10), within: limit) {
      read()
      return contains(assignment) ? true : nil
    }
    #expect(found == true, "\(assignment) is not in \(messages)")
  }

  /// Returns whether one of the read datagrams contains an assignment, such as `READY=1`.
  func contains(_ assignment: String) -> Bool {
    messages.contains { $0.split(separator: "\n").contains { $0 == assignment } }
  }
}
