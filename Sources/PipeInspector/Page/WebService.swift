import PipeMachines

/// Serves the inspector's page to browsers: its files and its API.
package struct WebService: Sendable {
  private let source: any PageDataSource
  private let accessControl: WebGuard

  /// The maximum size of the events in one response. Unit: bytes.
  private static let deltaByteCount = 512 << 10
  /// The maximum size of the events of a recorded run, which a page receives in one response. Unit:
  /// bytes.
  private static let runByteCount = 8 << 20
  /// How long a request waits for new data. If no data arrives, the answer is empty.
  private static let changesTimeout: Duration = .seconds(10)

  package init(_ source: any PageDataSource, accessControl: WebGuard) {
    self.source = source
    self.accessControl = accessControl
  }

  package func answer(_ request: WebRequest) async -> WebResponse {
    var response: WebResponse
    if let refusal = accessControl.refusal(of: request) {
      response = refusal
    } else if let file = WebFiles.all[request.path] {
      response = WebResponse(200, headers: ["Content-Type": file.type], body: file.bytes)
    } else if request.path.hasPrefix("/api/") {
      response = await answer(api: request)
    } else {
      response = WebResponse(404, "not found")
    }
    response.headers.merge(WebGuard.headers) { own, _ in own }
    return response
  }

  private func answer(api request: WebRequest) async -> WebResponse {
    switch WebRoute(request) {
    case .about:
      let isReadOnly = accessControl.isReadOnly || source.endOfRun != nil
      return Self.json(["readOnly": .bool(isReadOnly)])
    case .changes: return await changes(request)
    case .machine: return await answer { .machine(node: try Self.node(of: request)) }
    case .enabled: return await answer { .enabled(node: try Self.node(of: request)) }
    case .state: return await answer { .state(node: try Self.node(of: request)) }
    case .deadLetters: return await answer { .deadLetters(node: try Self.node(of: request)) }
    case .layout: return Self.layout(request)
    case .send: return await answer { try Self.event(of: request) }
    case .chart: return await answer { .chart(node: try Self.node(of: request)) }
    case .control: return await answer { try Self.control(of: request) }
    case .deadLetter: return await answer { try Self.deadLetter(of: request) }
    case nil: return Self.errorResponse(404, "no such API request")
    }
  }

  private static func layout(_ request: WebRequest) -> WebResponse {
    guard let body = try? JSONValue(parsing: request.body) else {
      return errorResponse(400, "the body must be JSON")
    }
    do {
      return json(try PageLayout.record(of: body))
    } catch {
      return errorResponse(400, error.reason)
    }
  }

  private func changes(_ request: WebRequest) async -> WebResponse {
    guard let cursor = UInt64(request.query["after"] ?? "0") else {
      return Self.errorResponse(400, "'after' must be the 'cursor' of the previous answer")
    }
    var nextDelta = await source.recorder.nextDelta(
      after: cursor, within: Self.changesTimeout,
      limit: source.endOfRun == nil ? Self.deltaByteCount : Self.runByteCount)
    if let end = source.endOfRun { nextDelta.time = end }
    return WebResponse(200, headers: Self.jsonHeaders, body: nextDelta.json)
  }

  private func answer(_ read: () throws -> InspectionRequest) async -> WebResponse {
    let inspectionRequest: InspectionRequest
    do { inspectionRequest = try read() } catch { return Self.errorResponse(400, "\(error)") }
    do {
      return Self.json(try await source.answer(inspectionRequest))
    } catch {
      return Self.errorResponse(409, (error as? InspectionRequestError)?.reason ?? "\(error)")
    }
  }

  // MARK: Reading of requests

  private struct MalformedRequest: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
  }

  private static func node(of request: WebRequest) throws(MalformedRequest) -> String {
    guard let node = request.query["node"], !node.isEmpty else {
      throw MalformedRequest("'node' is missing")
    }
    return node
  }

  private static func body(
    of request: WebRequest
  ) throws(MalformedRequest) -> (node: String, json: JSONValue) {
    guard let body = try? JSONValue(parsing: request.body), let node = body["node"]?.string else {
      throw MalformedRequest("the body must be a JSON object with 'node'")
    }
    return (node, body)
  }

  private static func event(of request: WebRequest) throws(MalformedRequest) -> InspectionRequest {
    let (node, body) = try body(of: request)
    guard let event = body["event"] else { throw MalformedRequest("'event' is missing") }
    return .send(node: node, event: event)
  }

  private static func control(of request: WebRequest) throws(MalformedRequest)
    -> InspectionRequest
  {
    let (node, body) = try body(of: request)
    guard let action = body["action"]?.string.flatMap(NodeControlAction.init) else {
      throw MalformedRequest("'action' must be start, stop, restart or kill")
    }
    return .control(node: node, action)
  }

  private static func deadLetter(of request: WebRequest) throws(MalformedRequest)
    -> InspectionRequest
  {
    let (node, body) = try body(of: request)
    guard let id = body["id"]?.integer.flatMap({ UInt64(exactly: $0) }),
      case .bool(let drops)? = body["drops"]
    else { throw MalformedRequest("'id' or 'drops' is missing") }
    return .deadLetter(node: node, id: id, drops: drops)
  }

  // MARK: Writing of responses

  private static let jsonHeaders = ["Content-Type": "application/json; charset=utf-8"]

  private static func json(_ value: JSONValue, _ status: Int = 200) -> WebResponse {
    WebResponse(status, headers: jsonHeaders, body: value.bytes)
  }

  private static func errorResponse(_ status: Int, _ reason: String) -> WebResponse {
    json(["error": .string(reason)], status)
  }
}

/// The API of the page's server.
package enum WebRoute: String, CaseIterable, Sendable {
  case about = "GET /api/about"
  case changes = "GET /api/changes"
  case machine = "GET /api/machine"
  case enabled = "GET /api/enabled"
  case state = "GET /api/state"
  case deadLetters = "GET /api/dead-letters"
  case layout = "POST /api/layout"
  case send = "POST /api/send"
  case chart = "GET /api/chart"
  case control = "POST /api/control"
  case deadLetter = "POST /api/dead-letter"

  /// Finds the route of a request; `nil` if the API does not have this route.
  init?(_ request: WebRequest) { self.init(rawValue: "\(request.method) \(request.path)") }

  /// Whether a request changes nothing in the topology, so that a read-only page may send it.
  package var onlyReads: Bool { method == "GET" || self == .layout }

  /// The HTTP method: `GET` or `POST`.
  package var method: String { String(rawValue.prefix { $0 != " " }) }

  /// The path, such as `/api/about`.
  package var path: String { String(rawValue.drop { $0 != " " }.dropFirst()) }
}

/// The files of the page, which are in the folder `Page`. The page loads no files from other
/// servers.
enum WebFiles {
  struct File: Sendable {
    let type: String
    let bytes: [UInt8]
  }

  /// The files by path.
  static let all: [String: File] = [
    "/": File(type: "text/html; charset=utf-8", bytes: PackageResources.page_html),
    "/page.js": script(PackageResources.page_js),
    "/text.js": script(PackageResources.text_js),
    "/trace.js": script(PackageResources.trace_js),
    "/timeline.js": script(PackageResources.timeline_js),
    "/pulse.js": script(PackageResources.pulse_js),
    "/export.js": script(PackageResources.export_js),
    "/states.js": script(PackageResources.states_js),
    "/keys.js": script(PackageResources.keys_js),
    "/panels.js": script(PackageResources.panels_js),
    "/health.js": script(PackageResources.health_js),
    "/graph.js": script(PackageResources.graph_js),
    "/node.js": script(PackageResources.node_js),
    "/sequence.js": script(PackageResources.sequence_js),
    "/logs.js": script(PackageResources.logs_js),
    "/fold.js": script(PackageResources.fold_js),
    "/moment.js": script(PackageResources.moment_js),
    "/act.js": script(PackageResources.act_js),
    "/talk.js": script(PackageResources.talk_js),
    "/page.css": File(type: "text/css; charset=utf-8", bytes: PackageResources.page_css),
    "/icon.svg": File(type: "image/svg+xml", bytes: PackageResources.icon_svg),
  ]

  private static func script(_ bytes: [UInt8]) -> File {
    File(type: "text/javascript; charset=utf-8", bytes: bytes)
  }
}
