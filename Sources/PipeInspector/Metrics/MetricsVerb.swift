import PipeClient
import PipeSupport
import PipeSystem

/// `inspector metrics`
struct MetricsVerb: InspectorVerb {
  let description = CommandDescription(
    "metrics", of: InspectorCommand.program, "Serves a topology's metrics to Prometheus",
    discussion:
      "It listens until ^C, and asks the topology when it is asked: its figures are those of that "
      + "moment. They are in Prometheus's text, or in that of OpenMetrics where this is preferred. A "
      + "topology that ends is told as down; when it is back under its name, its figures are, too. With "
      + "-p it need not run yet. Who can reach the port can read the figures, and nothing else.",
    options: [
      .topology,
      Option(
        "port", value: .count("PORT"), "Where it listens; 0 is any that is free. Default: 9464"),
      Option(
        "address", value: .text("ADDRESS"),
        "The address at which it listens, in numbers. Default: 127.0.0.1, for this machine alone"),
    ] + Option.tls + [.socket],
    examples: [
      ("inspector metrics", "http://127.0.0.1:9464/metrics"),
      ("inspector metrics -p shop --port 9500 --address 0.0.0.0", "Also for other machines"),
    ])

  func run(_ arguments: ParsedArguments) throws -> Never {
    let (target, name) = try InspectorCommand.topology(arguments)
    let signals = try SignalDescriptor([.interrupt, .terminate, .hangUp])
    let service = MetricsService(LiveTopology(target, name: name))
    let certificate = try InspectorCommand.certificate(arguments)
    let listener = try Self.listen(arguments)
    let scheme = certificate == nil ? "http" : "https"
    let place = listener.port == 0 ? listener.place : "\(scheme)://\(listener.place)/metrics"
    let server = try WebServer(
      listener, limits: MetricsService.limits, certificate: certificate
    ) { await service.answer($0) }
    InspectorCommand.say("metrics of topology '\(name)': \(place)")
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

/// Serves metrics to Prometheus and other clients that read its text.
package struct MetricsService: Sendable {
  private let source: any InspectionSource

  package init(_ source: any InspectionSource) { self.source = source }

  /// The limits for clients. Up to sixteen clients receive answers of some megabytes at a time.
  package static var limits: WebServer.Limits {
    var limits = WebServer.Limits()
    limits.connections = 16
    limits.idleSeconds = 5
    limits.requestSeconds = 10
    limits.bodyByteCount = 0
    return limits
  }

  package func answer(_ request: WebRequest) async -> WebResponse {
    guard request.path == "/metrics" else {
      return request.path == "/"
        ? WebResponse(200, "the metrics of a topology of PipeRuntime are at /metrics")
        : WebResponse(404, "there is nothing here; the metrics are at /metrics")
    }
    guard request.method == "GET" || request.method == "HEAD" else {
      var response = WebResponse(405, "metrics can be read only: GET or HEAD")
      response.headers["Allow"] = "GET, HEAD"
      return response
    }
    let format = MetricFormat(accept: request.headers["accept"])
    let text = MetricText.of(TopologyMetrics.families(of: await source.snapshot()), as: format)
    return WebResponse(200, headers: ["Content-Type": format.contentType], body: text)
  }
}
