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
  private let file: SocketFile?

  /// Those beyond the limit: who is parted from and not closed yet, and who comes while all others wait for
  /// their answers. Who comes then waits to be let in. Unit: connections.
  private static let reserve: UInt32 = 16

  /// The library's server, which takes calls of any thread.
  private struct Daemon: @unchecked Sendable {
    let pointer: OpaquePointer
    /// Parts from clients who are slow to ask.
    let watch: Task<Void, Never>
  }

  /// Begins to answer who connects.
  /// - Parameter certificate: Where there is one, it answers by TLS alone.
  /// - Throws: ``SystemError`` where no server can be made: the process may have no descriptor left;
  ///   ``WebCertificateError`` where the certificate is not taken.
  package init(
    _ listener: consuming WebListener, limits: Limits = Limits(),
    certificate: WebCertificate? = nil, _ handler: @escaping Handler
  ) throws {
    exchanges = WebExchanges(limits, handler)
    file = listener.file
    let place = listener.place
    let descriptor = listener.take()
    // Where the library cannot start it has closed the one that it was given, or not: that one is its own.
    let given = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
    defer { close(descriptor) }
    do {
      guard given >= 0 else { throw SystemError("fcntl", on: place, code: errno) }
      let started = Daemon(
        pointer: try Self.start(given, place, limits, certificate, for: exchanges),
        watch: exchanges.connections.watch())
      daemon.withLock { $0 = started }
    } catch {
      shutdown(descriptor, Int32(SHUT_RDWR))
      file?.remove()
      throw error
    }
  }

  private static func start(
    _ descriptor: Int32, _ place: String, _ limits: Limits, _ certificate: WebCertificate?,
    for exchanges: WebExchanges
  ) throws -> OpaquePointer {
    if certificate != nil, MHD_is_feature_supported(.FEATURE_TLS) != .YES {
      throw WebCertificateError.notSupported
    }
    // They outlive the library's thread, which is stopped and waited for before they go.
    let owner = Unmanaged.passUnretained(exchanges).toOpaque()
    // What comes is read, and an answer's headers are written, in the same room.
    let room = limits.headByteCount + 2 << 10
    let pointer = pr_start_web_server(
      descriptor, takeRequest, requestEnded, connectionChanged, owner,
      limits.connections + reserve, room, limits.idleSeconds, certificate?.certificate,
      certificate?.key)
    if let pointer { return pointer }
    let code = errno
    // What the library for TLS leaves in it means nothing.
    if let certificate, ![EMFILE, ENFILE, ENOMEM].contains(code) {
      throw WebCertificateError.refused(
        certificate: certificate.certificateFile, key: certificate.keyFile)
    }
    throw SystemError("the start of the web server", on: place, code: code)
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
    // Before nobody listens there any more, when somebody else may take the name.
    file?.remove()
    MHD_stop_daemon(stopped.pointer)
  }
}

/// What a client asks of a web server.
package struct WebRequest: Hashable, Sendable {
  /// `GET`, `POST`, …
  package var method: String
  /// Without the query, as it stands in the request, percent escapes read.
  package var path: String
  /// The values of the query, by name; of several the last one.
  package var query: [String: String]
  /// By their names in lower case; of several the values, with commas between them.
  package var headers: [String: String]
  package var body: [UInt8]

  package init(
    method: String = "GET", path: String, query: [String: String] = [:],
    headers: [String: String] = [:], body: [UInt8] = []
  ) {
    self.method = method
    self.path = path
    self.query = query
    self.headers = headers
    self.body = body
  }
}

/// What it answers.
package struct WebResponse: Hashable, Sendable {
  /// 200, 404, …
  package var status: Int
  package var headers: [String: String]
  package var body: [UInt8]

  package init(_ status: Int, headers: [String: String] = [:], body: [UInt8] = []) {
    self.status = status
    self.headers = headers
    self.body = body
  }

  /// An answer in words.
  package init(_ status: Int, _ text: String) {
    self.init(
      status, headers: ["Content-Type": "text/plain; charset=utf-8"],
      body: Array((text + "\n").utf8))
  }
}
