import Glibc

/// The service manager that started this process, such as systemd. The service manager receives
/// notifications as datagrams; see sd_notify(3).
package struct ServiceManager: Hashable, Sendable {
  /// The time within which the service manager expects the next `WATCHDOG=1`; `nil` if it expects
  /// none.
  package let watchdogTimeout: Duration?
  /// The address of the service manager's socket. `@` at the beginning marks an abstract address.
  private let address: String

  private static let variables = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]

  /// - Parameters:
  ///   - environment: The variables that the service manager has set.
  ///   - pid: The id of this process. If `WATCHDOG_PID` differs, the watchdog is for another
  ///     process.
  /// - Returns: `nil` if the service manager expects no notifications.
  package init?(environment: [String: String], pid: Int32 = getpid()) {
    guard let address = environment["NOTIFY_SOCKET"], ["/", "@"].contains(address.prefix(1)),
      2...Self.addressLimit ~= address.utf8.count
    else { return nil }
    self.address = address
    let isWatched = environment["WATCHDOG_PID"].map { $0 == "\(pid)" } ?? true
    watchdogTimeout =
      isWatched
      ? environment["WATCHDOG_USEC"].flatMap { Int64($0) }.flatMap {
        $0 > 0 ? .microseconds($0) : nil
      } : nil
  }

  /// Returns the service manager of this process, and removes the service manager's variables from
  /// the environment. So child processes do not send notifications. Call this before the process
  /// starts a thread.
  package static func take() -> ServiceManager? {
    let manager = ServiceManager(environment: ProcessEnvironment.current)
    for variable in variables { unsetenv(variable) }
    return manager
  }

  /// Sends assignments such as `READY=1`. Does not wait if the service manager is busy.
  /// - Returns: Whether the assignments were sent.
  @discardableResult
  package func notify(_ assignments: [String]) -> Bool {
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var destination = sockaddr_un()
    destination.sun_family = sa_family_t(AF_UNIX)
    var path = Array(address.utf8)
    if address.hasPrefix("@") { path[0] = 0 }
    withUnsafeMutableBytes(of: &destination.sun_path) { $0.copyBytes(from: path) }
    let length = socklen_t(MemoryLayout<sockaddr_un>.offset(of: \.sun_path)! + path.count)
    let message = Array(assignments.joined(separator: "\n").utf8)
    let count = withUnsafePointer(to: &destination) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        sendto(
          descriptor, message, message.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL),
          $0, length)
      }
    }
    return count == message.count
  }

  /// The maximum length of an address. Unit: bytes.
  private static let addressLimit = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1
}
