import CMicroHTTPD
import Glibc
import PipeSupport
import PipeSystem

/// Answers requests of HTTP 1.1, on a thread of its own, within bounds: a client that is slow, silent or
/// does not read holds one connection of a few, and loses it.
package final class WebServer: Sendable {
  /// What clients may take.
  package struct Limits: Hashable, Sendable {
    /// Where there are so many, a new one takes the place of the one that has been slow for the longest time:
    /// to ask, or else to read. Unit: connections.
    package var connections: UInt32 = 32
    /// Of the line and the headers of a request. Unit: bytes.
    package var headByteCount = 16 << 10
    /// Of the body of a request. Unit: bytes.
    package var bodyByteCount = 64 << 10
    /// A connection on which nothing moves for so long is closed. Unit: seconds.
    package var idleSeconds: UInt32 = 10
    /// How long a request may take to come as a whole, from when the connection was opened, or was done with
    /// the one before. Unit: seconds.
    package var requestSeconds = 20

    package init() {}
  }

  package typealias Handler = @Sendable (WebRequest) async -> WebResponse

  private let exchanges: WebExchanges
  private let daemon = Locked<Daemon?>(nil)

  /// Those that are parted from, and not closed yet. Unit: connections.
  private static let partingCount: UInt32 = 16

  /// The library's server, which takes calls of any thread.
  private struct Daemon: @unchecked Sendable {
    let pointer: OpaquePointer
    /// Parts from clients who are slow to ask.
    let watch: Task<Void, Never>
  }

  /// Begins to answer who connects.
  /// - Throws: ``SystemError`` where no server can be made: the process may have no descriptor left.
  package init(
    _ listener: consuming WebListener, limits: Limits = Limits(), _ handler: @escaping Handler
  ) throws(SystemError) {
    exchanges = WebExchanges(limits, handler)
    let place = listener.place
    let descriptor = listener.take()
    // They outlive the library's thread, which is stopped and waited for before they go.
    let owner = Unmanaged.passUnretained(exchanges).toOpaque()
    // What comes is read, and an answer's headers are written, in the same room.
    let room = limits.headByteCount + 2 << 10
    guard
      let pointer = pr_start_web_server(
        descriptor, takeRequest, requestEnded, connectionChanged, owner,
        limits.connections + Self.partingCount, room, limits.idleSeconds)
    else {
      let code = errno
      close(descriptor)
      throw SystemError("the start of the web server", on: place, code: code)
    }
    let started = Daemon(pointer: pointer, watch: exchanges.connections.watch())
    daemon.withLock { $0 = started }
  }

  deinit { stop() }

  /// Takes no more requests, and ends those that are under way.
  package func stop() {
    let stopped = daemon.withLock { daemon in
      defer { daemon = nil }
      return daemon
    }
    guard let stopped else { return }
    stopped.watch.cancel()
    // Those that wait for an answer cannot be ended before they go on.
    exchanges.stop()
    MHD_stop_daemon(stopped.pointer)
  }
}
