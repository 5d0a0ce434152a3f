import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

extension Trait where Self == ConditionTrait {
  /// Skips the test, with the reason, where Prometheus and its `promtool` are not installed.
  static var needsPrometheus: Self {
    .enabled(
      if: ["/usr/bin/prometheus", "/usr/bin/promtool"].allSatisfy(FileSystem.exists),
      "Debian's 'prometheus' is not installed: 'tools/setup prometheus' does that")
  }
}

/// Debian's Prometheus, which scrapes an inspector each second.
struct Prometheus {
  let program: LaunchedProgram
  private let client: WebClient

  /// Starts Prometheus at a free port, and returns once it listens.
  init(_ tool: CommandLineTool, scraping port: UInt16) async throws {
    try tool.directory.write(
      """
      global: { scrape_interval: 1s }
      scrape_configs:
        - { job_name: piperuntime, static_configs: [{ targets: ['127.0.0.1:\(port)'] }] }

      """, to: "prometheus.yml")
    let program = try tool.start(
      program: "/usr/bin/prometheus",
      [
        "--config.file=prometheus.yml", "--storage.tsdb.path=prometheus",
        "--web.listen-address=127.0.0.1:0",
      ])
    let own: UInt16? = try await poll(every: .milliseconds(20), within: .seconds(60)) {
      program.errorText.split(separator: "\n").first { $0.contains("\"Listening on\"") }
        .flatMap { $0.split(separator: ":").last }.flatMap { UInt16($0.prefix { $0.isNumber }) }
    }
    self.program = program
    client = WebClient(port: try #require(own, "\(program.errorText)"))
  }

  /// Returns whether a query has a result now.
  func hasData(for query: String) async throws -> Bool {
    // Asks for the count of results only: the client does not read chunked responses.
    let escaped = "count(\(query))".utf8.map { byte in
      let digits = String(byte, radix: 16, uppercase: true)
      return "%" + (digits.count < 2 ? "0" : "") + digits
    }.joined()
    let answer = try await client.get("/api/v1/query?query=" + escaped)
    let value = try JSONValue(parsing: answer.body.utf8)
    try #require(value["status"] == "success", "\(query): \(answer)")
    guard case .array(let results)? = value["data"]?["result"] else { return false }
    return !results.isEmpty
  }
}
