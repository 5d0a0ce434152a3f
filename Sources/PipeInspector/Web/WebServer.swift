import CMicroHTTPD
import Glibc
import PipeSupport
import PipeSystem

/// Answers HTTP 1.1 requests on its own thread. The number of connections is limited. A client that
/// is slow or silent, or does not read, occupies a connection, and is disconnected when another
/// client needs that connection.
package final class WebServer: Sendable {
  /// The limits that apply to clients.
  package struct Limits: Hashable, Sendable {
    /// The maximum number of connections. At this number, a new connection replaces the connection
    /// of the slowest client. This is the client that has been sending its request for the longest
    /// time or, if no client is sending, the client that has been reading its answer for the
    /// longest time.
    package var connections: UInt32 = 32
    /// The maximum size of a request's line and headers. Unit: bytes.
    package var headByteCount = 16 << 10
    /// The maximum size of a request's body. Unit: bytes.
    package var bodyByteCount = 64 << 10
    /// The time after which an idle connection is closed. Unit: seconds.
    package var idleSeconds: UInt32 = 10
    /// The maximum time until a request has arrived completely. The time starts when the connection
    /// is opened or its previous request ends. Unit: seconds.
    package var requestSeconds = 20

    package init() {}
  }

  package typealias Handler = @Sendable (WebRequest) async -> WebResponse

  private let exchanges: WebExchanges
  private let daemon = Locked<Daemon?>(nil)
  private let file: SocketFile?

  /// The number of connections that the HTTP library accepts above the limit. These connections are
  /// needed in two cases: while connections that were shut down are not closed yet, and while all
  /// clients wait for answers. Further clients wait to be accepted.
  private static let extraConnectionCount: UInt32 = 16

  /// The server of the HTTP library. Any thread can call it.
  private struct Daemon: @unchecked Sendable {
    let pointer: OpaquePointer
    /// The task that disconnects clients whose requests take too long.
    let watch: Task<Void, Never>
  }

  /// Starts the server.
  /// - Parameter certificate: The certificate of a server that accepts only TLS; `nil` for no TLS.
  /// - Throws: ``SystemError`` if the server cannot be started, for example because no descriptor
  ///   is free; ``WebCertificateError`` if the certificate is invalid.
  package init(
    _ listener: consuming WebListener, limits: Limits = Limits(),
    certificate: WebCertificate? = nil, _ handler: @escaping Handler
  ) throws {
    exchanges = WebExchanges(limits, handler)
    file = listener.file
    let endpoint = listener.endpoint
    let descriptor = listener.take()
    // The library gets a duplicate of the descriptor: if the start fails, the library may or may
    // not have closed its descriptor.
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
    // The pointer does not have to be retained: the library's thread is joined before the exchanges
    // are released.
    let owner = Unmanaged.passUnretained(exchanges).toOpaque()
    // The library uses one buffer both for reading requests and for writing response headers.
    let bufferSize = limits.headByteCount + 2 << 10
    let pointer = pr_start_web_server(
      descriptor, handleRequest, requestEnded, connectionChanged, owner,
      limits.connections + extraConnectionCount, bufferSize, limits.idleSeconds,
      certificate?.certificate,
      certificate?.key)
    if let pointer { return pointer }
    let code = errno
    // If the certificate and the key do not match, the TLS library leaves an arbitrary value in
    // errno. So every error except a lack of resources counts as a mismatch.
    if let certificate, ![EMFILE, ENFILE, ENOMEM].contains(code) {
      throw WebCertificateError.mismatchedKey(
        certificate: certificate.certificateFile, key: certificate.keyFile)
    }
    throw SystemError("start of the web server", on: endpoint, code: code)
  }

  deinit { stop() }

  /// Rejects new requests, and ends the requests that are not answered yet.
  package func stop() {
    let stopped = daemon.withLock { daemon in
      defer { daemon = nil }
      return daemon
    }
    guard let stopped else { return }
    stopped.watch.cancel()
    // A suspended connection must be resumed before it can be closed.
    exchanges.stop()
    // The file is removed while the socket still listens. Afterwards, the path may belong to
    // another process.
    file?.remove()
    MHD_stop_daemon(stopped.pointer)
  }
}

/// A request of a web client.
package struct WebRequest: Hashable, Sendable {
  /// The HTTP method, such as `GET` or `POST`.
  package var method: String
  /// The path without the query, with percent escapes decoded.
  package var path: String
  /// The values of the query, by name. If a name is repeated, the last value is used.
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
  /// The status code, such as 200 or 404.
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
