import PipeInspection
import PipeWeb

/// Answers Prometheus, and others that read its text.
package struct MetricsService: Sendable {
  private let source: any InspectionSource

  package init(_ source: any InspectionSource) { self.source = source }

  /// What clients may take: an answer of some megabytes, sixteen at a time.
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
