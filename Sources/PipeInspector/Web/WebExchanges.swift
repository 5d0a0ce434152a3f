import CMicroHTTPD
import Glibc
import PipeSupport

/// The unanswered requests of a web server.
final class WebExchanges: Sendable {
  private struct PendingExchanges {
    var exchanges: Set<WebExchange> = []
    var isStopped = false
  }

  private let handler: WebServer.Handler
  /// The maximum size of a request's body. Unit: bytes.
  let bodyByteCount: Int
  /// The exchanges whose requests are not answered yet.
  private let waiting = Locked(PendingExchanges())
  let connections: WebConnections

  init(_ limits: WebServer.Limits, _ handler: @escaping WebServer.Handler) {
    self.handler = handler
    bodyByteCount = limits.bodyByteCount
    connections = WebConnections(limits)
  }

  private static let stoppingResponse = WebResponse(503, "the server is stopping")

  /// Suspends the connection, and starts a task that answers the request.
  func handle(_ request: WebRequest, for exchange: WebExchange) {
    exchange.wait()
    let isStopped = waiting.withLock { waiting in
      waiting.exchanges.insert(exchange)
      return waiting.isStopped
    }
    if isStopped { return answer(exchange, Self.stoppingResponse) }
    Task { answer(exchange, await handler(request)) }
  }

  private func answer(_ exchange: WebExchange, _ response: WebResponse) {
    waiting.withLock { _ = $0.exchanges.remove(exchange) }
    exchange.answer(response)
  }

  /// Answers all pending and future requests with an error.
  func stop() {
    let exchanges = waiting.withLock { waiting in
      waiting.isStopped = true
      return waiting.exchanges
    }
    for exchange in exchanges { answer(exchange, Self.stoppingResponse) }
  }
}

/// A request and its response.
final class WebExchange: Sendable {
  enum Phase {
    case receiving([UInt8])
    case tooLarge
    /// The connection is suspended until the handler returns an answer.
    case waiting
    case answered(WebResponse)
  }

  /// A connection of the HTTP library. Any thread can resume a suspended connection.
  private struct Connection: @unchecked Sendable { let pointer: OpaquePointer }

  private let connection: Connection
  private let state = Locked(Phase.receiving([]))

  init(_ connection: OpaquePointer) { self.connection = Connection(pointer: connection) }

  var phase: Phase { state.withLock { $0 } }

  func receive(_ bytes: UnsafeRawBufferPointer, limit: Int) {
    state.withLock { phase in
      guard case .receiving(var body) = phase else { return }
      // The phase is replaced first. Then `body` is the only reference to the array, and `append`
      // does not copy the array.
      phase = .tooLarge
      guard body.count + bytes.count <= limit else { return }
      body.append(contentsOf: bytes)
      phase = .receiving(body)
    }
  }

  /// Suspends the connection.
  func wait() {
    state.withLock { $0 = .waiting }
    MHD_suspend_connection(connection.pointer)
  }

  /// Sets the answer, and resumes the connection. Only the first answer counts.
  func answer(_ response: WebResponse) {
    let isFirst = state.withLock { phase in
      guard case .waiting = phase else { return false }
      phase = .answered(response)
      return true
    }
    if isFirst { MHD_resume_connection(connection.pointer) }
  }
}

extension WebExchange: Hashable {
  static func == (one: WebExchange, other: WebExchange) -> Bool { one === other }
  func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

// The callbacks of the HTTP library, which run on the library's thread.

func connectionChanged(
  owner: UnsafeMutableRawPointer?, connection: OpaquePointer?,
  context: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, code: MHD_ConnectionNotificationCode
) {
  guard let owner, let connection else { return }
  let connections = Unmanaged<WebExchanges>.fromOpaque(owner).takeUnretainedValue().connections
  if code == .CONNECTION_NOTIFY_STARTED {
    connections.open(connection)
  } else {
    connections.change { $0.closed(connection) }
  }
}

func handleRequest(
  owner: UnsafeMutableRawPointer?, connection: OpaquePointer?, url: UnsafePointer<CChar>?,
  method: UnsafePointer<CChar>?, version: UnsafePointer<CChar>?, body: UnsafePointer<CChar>?,
  byteCount: UnsafeMutablePointer<Int>?, state: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
  guard let owner, let connection, let url, let method, let byteCount, let state else {
    return .NO
  }
  let exchanges = Unmanaged<WebExchanges>.fromOpaque(owner).takeUnretainedValue()
  // In the first call for a request, the library has not read the body yet.
  guard let pointer = state.pointee else {
    state.pointee = Unmanaged.passRetained(WebExchange(connection)).toOpaque()
    return .YES
  }
  let exchange = Unmanaged<WebExchange>.fromOpaque(pointer).takeUnretainedValue()
  if byteCount.pointee > 0 {
    exchange.receive(
      UnsafeRawBufferPointer(start: body, count: byteCount.pointee), limit: exchanges.bodyByteCount)
    byteCount.pointee = 0
    return .YES
  }
  switch exchange.phase {
  case .receiving(let body):
    let request = WebRequest(
      method: String(cString: method), path: String(cString: url), of: connection, body: body)
    exchanges.connections.change { $0.requestReceived(connection, at: .now) }
    exchanges.handle(request, for: exchange)
    return .YES
  case .tooLarge:
    exchanges.connections.change { $0.answered(connection, at: .now) }
    return send(WebResponse(413, "the body is too large"), on: connection)
  case .answered(let response):
    exchanges.connections.change { $0.answered(connection, at: .now) }
    return send(response, on: connection)
  case .waiting: return .YES
  }
}

func requestEnded(
  owner: UnsafeMutableRawPointer?, connection: OpaquePointer?,
  state: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, code: MHD_RequestTerminationCode
) {
  guard let owner, let connection, let pointer = state?.pointee else { return }
  state?.pointee = nil
  Unmanaged<WebExchanges>.fromOpaque(owner).takeUnretainedValue()
    .connections.change { $0.ended(connection, at: .now) }
  Unmanaged<WebExchange>.fromOpaque(pointer).release()
}

/// Passes a response to the HTTP library, which makes its own copy.
private func send(_ response: WebResponse, on connection: OpaquePointer) -> MHD_Result {
  let nativeResponse = response.body.withUnsafeBytes { body in
    MHD_create_response_from_buffer(
      body.count, UnsafeMutableRawPointer(mutating: body.baseAddress), .RESPMEM_MUST_COPY)
  }
  guard let nativeResponse else { return .NO }
  defer { MHD_destroy_response(nativeResponse) }
  for (name, value) in response.headers { MHD_add_response_header(nativeResponse, name, value) }
  return MHD_queue_response(connection, UInt32(response.status), nativeResponse)
}

extension WebRequest {
  private struct Fields {
    var headers: [String: String] = [:]
    var query: [String: String] = [:]
  }

  /// Reads the headers and the query from a connection of the HTTP library.
  init(method: String, path: String, of connection: OpaquePointer, body: [UInt8]) {
    var fields = Fields()
    withUnsafeMutablePointer(to: &fields) { fields in
      MHD_get_connection_values(
        connection, .HEADER_KIND,
        { fields, _, name, value in
          guard let fields, let name, let value else { return .YES }
          let (key, text) = (String(cString: name).lowercased(), String(cString: value))
          let headers = fields.assumingMemoryBound(to: Fields.self)
          let former = headers.pointee.headers[key]
          headers.pointee.headers[key] = former.map { "\($0), \(text)" } ?? text
          return .YES
        }, fields)
      MHD_get_connection_values(
        connection, .GET_ARGUMENT_KIND,
        { fields, _, name, value in
          guard let fields, let name else { return .YES }
          fields.assumingMemoryBound(to: Fields.self).pointee.query[String(cString: name)] =
            value.map { String(cString: $0) } ?? ""
          return .YES
        }, fields)
    }
    self.init(
      method: method, path: path, query: fields.query, headers: fields.headers, body: body)
  }
}
