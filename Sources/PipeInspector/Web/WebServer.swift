import CMicroHTTPD
import Glibc
import PipeSupport
import PipeSystem

/// Answers HTTP 1.1 requests on its own thread, within limits. A client that is slow, silent or
/// does not read occupies one of a few connections, and loses it.
package final class WebServer: Sendable {
  /// The limits for clients.
  package struct Limits: Hashable, Sendable {
    /// The maximum number of connections. Beyond it, a new one replaces the one that has been slow
    /// for the longest time: to send its request, or else to read.
    package var connections: UInt32 = 32
    /// The maximum size of a request's line and headers. Unit: bytes.
    package var headByteCount = 16 << 10
    /// The maximum size of a request's body. Unit: bytes.
    package var bodyByteCount = 64 << 10
    /// The time after which an idle connection is closed. Unit: seconds.
    package var idleSeconds: UInt32 = 10
    /// The longest time for a complete request to arrive, since the connection was opened or its
    /// previous request ended. Unit: seconds.
    package var requestSeconds = 20

    package init() {}
  }

  package typealias Handler = @Sendable (WebRequest) async -> WebResponse

  private let exchanges: WebExchanges
  private let daemon = Locked<Daemon?>(nil)
  private let file: SocketFile?

  /// The number of connections beyond the limit: for those shut down and not closed yet, and for
  /// new ones while all others wait for their answers. Further clients wait to be accepted.
  private static let reserve: UInt32 = 16

  /// The library's server, which any thread may call.
  private struct Daemon: @unchecked Sendable {
    let pointer: OpaquePointer
    /// The task that disconnects clients whose requests take too long.
    let watch: Task<Void, Never>
  }

  /// Starts to serve.
  /// - Parameter certificate: With a certificate, the server accepts TLS only.
  /// - Throws: ``SystemError`` if the server cannot be started, for example without free
  ///   descriptors; ``WebCertificateError`` if the certificate is not usable.
  package init(
    _ listener: consuming WebListener, limits: Limits = Limits(),
    certificate: WebCertificate? = nil, _ handler: @escaping Handler
  ) throws {
    exchanges = WebExchanges(limits, handler)
    file = listener.file
    let endpoint = listener.endpoint
    let descriptor = listener.take()
    // The library may or may not close its descriptor when it fails to start. So it gets a
    // duplicate.
    let duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
    defer { close(descriptor) }
    do {
      guard duplicate >= 0 else { throw SystemError("fcntl", on: endpoint, code: errno) }
      let started = Daemon(
        pointer: try Self.start(duplicate, endpoint, limits, certificate, for: exchanges),
        watch: exchanges.connections.watch())
      daemon.withLock { $0 = started }
    } catch {
      shutdown(descriptor, Int32(SHUT_RDWR))
      file?.remove()
      throw error
    }
  }

  private static func start(
    _ descriptor: Int32, _ endpoint: String, _ limits: Limits, _ certificate: WebCertificate?,
    for exchanges: WebExchanges
  ) throws -> OpaquePointer {
    if certificate != nil, MHD_is_feature_supported(.FEATURE_TLS) != .YES {
      throw WebCertificateError.notSupported
    }
    // The exchanges outlive the library's thread, which is joined before they are released.
    let owner = Unmanaged.passUnretained(exchanges).toOpaque()
    // The library reads requests and writes response headers in the same buffer.
    let bufferSize = limits.headByteCount + 2 << 10
    let pointer = pr_start_web_server(
      descriptor, handleRequest, requestEnded, connectionChanged, owner,
      limits.connections + reserve, bufferSize, limits.idleSeconds, certificate?.certificate,
      certificate?.key)
    if let pointer { return pointer }
    let code = errno
    // The TLS library leaves meaningless values in errno.
    if let certificate, ![EMFILE, ENFILE, ENOMEM].contains(code) {
      throw WebCertificateError.mismatchedKey(
        certificate: certificate.certificateFile, key: certificate.keyFile)
    }
    throw SystemError("start of the web server", on: endpoint, code: code)
  }

  deinit { stop() }

  /// Rejects further requests, and ends the pending ones.
  package func stop() {
    let stopped = daemon.withLock { daemon in
      defer { daemon = nil }
      return daemon
    }
    guard let stopped else { return }
    stopped.watch.cancel()
    // Suspended connections cannot be closed before they are resumed.
    exchanges.stop()
    // The file is removed while the socket still listens. Afterwards another process may use the
    // name.
    file?.remove()
    MHD_stop_daemon(stopped.pointer)
  }
}

/// A request of a web client.
package struct WebRequest: Hashable, Sendable {
  /// `GET`, `POST`, …
  package var method: String
  /// The path without the query, with percent escapes decoded.
  package var path: String
  /// The values of the query, by name. Of repeated names, the last value counts.
  package var query: [String: String]
  /// The headers, by name in lower case. Repeated headers are joined with commas.
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

/// The response to a request.
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

  /// Creates a plain text response.
  package init(_ status: Int, _ text: String) {
    self.init(
      status, headers: ["Content-Type": "text/plain; charset=utf-8"],
      body: Array((text + "\n").utf8))
  }
}
