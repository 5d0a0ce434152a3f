import Glibc
import PipeTransport

/// A relay between a server and its callers that can stall like a network: messages are then
/// neither delivered nor refused, and neither end is notified.
final class StallingRelay: Sendable {
  /// One connection, with the bytes that have arrived from one side and not been sent to the other.
  private final class RelayedConnection {
    let ends: [Int32]
    private var buffered: [[UInt8]] = [[], []]

    init(_ clientSocket: Int32, _ server: Int32) { ends = [clientSocket, server] }

    deinit { for end in ends { close(end) } }

    /// Forwards the bytes that have arrived, in both directions.
    /// - Returns: `false` once one of the sides has ended.
    func forward() -> Bool { forward(from: 0, to: 1) && forward(from: 1, to: 0) }

    private func forward(from: Int, to: Int) -> Bool {
      var buffer = [UInt8](repeating: 0, count: 65_536)
      let count = recv(ends[from], &buffer, buffer.count, Int32(MSG_DONTWAIT))
      guard count > 0 || (count < 0 && errno == EAGAIN) else { return false }
      if count > 0 { buffered[from] += buffer.prefix(count) }
      guard !buffered[from].isEmpty else { return true }
      let flags = Int32(MSG_DONTWAIT | MSG_NOSIGNAL)
      let sent = send(ends[to], buffered[from], buffered[from].count, flags)
      guard sent >= 0 || errno == EAGAIN else { return false }
      if sent > 0 { buffered[from].removeFirst(sent) }
      return true
    }
  }

  // Used only on the loop's thread once it has been created.
  private final class Lines: @unchecked Sendable {
    let listener: Int32
    private let target: sockaddr_in
    private let loop: PollLoop
    private var lines: [RelayedConnection] = []
    var isStalled = false

    init(to port: UInt16, on loop: PollLoop) {
      self.loop = loop
      target = StallingRelay.address(port)
      listener = StallingRelay.socket()
      StallingRelay.with(StallingRelay.address(0)) { bind(listener, $0, $1) }
      listen(listener, 16)
    }

    var port: UInt16 {
      var address = sockaddr_in()
      var size = socklen_t(MemoryLayout<sockaddr_in>.size)
      withUnsafeMutablePointer(to: &address) { pointer in
        _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          getsockname(listener, $0, &size)
        }
      }
      return UInt16(bigEndian: address.sin_port)
    }

    func run() {
      if !isStalled {
        acceptClients()
        lines.removeAll { !$0.forward() }
      }
      loop.schedule(after: .milliseconds(1), for: self) { $0.run() }
    }

    private func acceptClients() {
      while true {
        let clientSocket = accept(listener, nil, nil)
        guard clientSocket >= 0 else { return }
        _ = fcntl(clientSocket, F_SETFD, FD_CLOEXEC)
        let server = StallingRelay.socket(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        let line = RelayedConnection(clientSocket, server)
        if StallingRelay.with(target, { connect(server, $0, $1) }) == 0 { lines.append(line) }
      }
    }

    func end() {
      lines = []
      close(listener)
      loop.stop()
    }
  }

  let endpoint: String
  private let lines: Lines
  private let thread: LoopThread

  /// - Parameter target: A `tcp://127.0.0.1:PORT`.
  init(to target: String) {
    let port = target.split(separator: ":").last.flatMap { UInt16($0) } ?? 0
    let made = Shared<Lines?>(nil)
    thread = LoopThread { loop in
      let lines = Lines(to: port, on: loop)
      made.set(lines)
      lines.run()
    }
    lines = made.now!
    endpoint = "tcp://127.0.0.1:\(lines.port)"
  }

  deinit {
    thread.handle.post { [lines] in lines.end() }
    thread.join()
  }

  /// Stops forwarding.
  func stall() { thread.handle.post { [lines] in lines.isStalled = true } }

  /// Forwards again, beginning with the bytes that have arrived in between.
  func resume() { thread.handle.post { [lines] in lines.isStalled = false } }

  private static func socket(
    _ kind: UInt32 = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
  ) -> Int32 { Glibc.socket(AF_INET, Int32(kind), 0) }

  private static func address(_ port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
    return address
  }

  @discardableResult
  private static func with(
    _ address: sockaddr_in, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) -> Int32 {
    withUnsafePointer(to: address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
  }
}
