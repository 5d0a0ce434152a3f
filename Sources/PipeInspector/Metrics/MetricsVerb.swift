import PipeClient
import PipeSupport
import PipeSystem

/// The verb `inspector metrics`.
struct MetricsVerb: InspectorVerb {
  let description = CommandDescription(
    "metrics", of: InspectorCommand.program, "Serves the metrics of a topology to Prometheus",
    discussion:
      "Listens until ^C. Each request returns the current metrics of the topology, in the text "
      + "format of Prometheus, or in OpenMetrics if the client prefers that format. When the "
      + "topology has ended, it is reported as down until a topology with the same name runs "
      + "again. With -p, the topology does not have to be running yet. /healthz answers 200 if "
      + "the orchestrator answers, /readyz if all nodes run as well; otherwise 503. Any client "
      + "that can reach the port can read all of this data, but cannot change anything.",
    options: [
      .topology,
      Option(
        "port", value: .count("PORT"), "The port to listen on; 0 selects a free port. Default: 9464"
      ),
      Option(
        "address", value: .text("ADDRESS"),
        "The numeric address to listen on. Default: 127.0.0.1, for this host only"),
    ] + Option.tlsOptions + [.socket],
    examples: [
      ("inspector metrics", "Serves http://127.0.0.1:9464/metrics"),
      ("inspector metrics -p shop --port 9500 --address 0.0.0.0", "Serves other hosts, too"),
    ])

  func run(_ arguments: ParsedArguments) throws -> Never {
    let (target, name) = try InspectorCommand.topology(arguments)
    let signals = try SignalDescriptor([.interrupt, .terminate, .hangUp])
    let service = MetricsService(LiveTopology(target, name: name))
    let certificate = try InspectorCommand.certificate(arguments)
    let listener = try Self.listen(arguments)
    let scheme = certificate == nil ? "http" : "https"
    let endpoint =
      listener.port == 0 ? listener.endpoint : "\(scheme)://\(listener.endpoint)/metrics"
    let server = try WebServer(
      listener, limits: MetricsService.limits, certificate: certificate
    ) { await service.answer($0) }
    InspectorCommand.printLine("metrics of topology '\(name)': \(endpoint)")
    InspectorCommand.serve(server, until: signals)
  }

  private static func listen(_ arguments: ParsedArguments) throws -> WebListener {
    guard let path = arguments.value("socket") else {
      return try WebListener(
        address: arguments.value("address") ?? "127.0.0.1",
        port: InspectorCommand.port(arguments, default: 9464))
    }
    try InspectorCommand.expectNoPort(arguments)
    return try WebListener(socket: path)
  }
}

/// Serves metrics to Prometheus, and to other clients that read Prometheus' text format.
package struct MetricsService: Sendable {
  private let source: any SnapshotSource

  package init(_ source: any SnapshotSource) { self.source = source }

  /// The limits for clients. There can be 16 clients at a time, each with an answer of some
  /// megabytes.
  package static var limits: WebServer.Limits {
    var limits = WebServer.Limits()
    limits.connections = 16
    limits.idleSeconds = 5
    limits.requestSeconds = 10
    limits.bodyByteCount = 0
    return limits
  }

  package func answer(_ request: WebRequest) async -> WebResponse {
    let paths = ["/", "/metrics", HealthProbe.livenessPath, HealthProbe.readinessPath]
    guard paths.contains(request.path) else {
      return WebResponse(404, "not found; the metrics are at /metrics")
    }
    guard request.method == "GET" || request.method == "HEAD" else {
      var response = WebResponse(405, "method not allowed; use GET or HEAD")
      response.headers["Allow"] = "GET, HEAD"
      return response
    }
    switch request.path {
    case "/": return WebResponse(200, "the metrics of this PipeRuntime topology are at /metrics")
    case "/metrics": return await metrics(request)
    default:
      return HealthProbe(await source.snapshot()).answer(
        isReadiness: request.path == HealthProbe.readinessPath)
    }
  }

  private func metrics(_ request: WebRequest) async -> WebResponse {
    let format = MetricFormat(accept: request.headers["accept"])
    let text = MetricText.of(TopologyMetrics.families(of: await source.snapshot()), as: format)
    return WebResponse(200, headers: ["Content-Type": format.contentType], body: text)
  }
}
