import Glibc
import PipeInspector
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The addresses at which an inspector serves", .timed, .stallLimit(.seconds(120)))
struct WebPlaceTests {
  private static let yaml = """
    topology: gates
    program: TestNodes
    nodes: { gate: { machine: Gate } }
    """

  private static let curl = "/usr/bin/curl"

  /// Runs an inspector that must fail, and returns its error.
  private static func refused(
    _ tool: CommandLineTool, _ arguments: [String], code: Int32
  ) async throws -> String {
    let program = try tool.start(program: InspectorProgram.path, arguments)
    return try await tool.end(of: program, within: .seconds(60), code: code).error
  }

  @Test(
    "An inspector on a Unix socket serves clients with the token, and can restart after a kill")
  func socket() async throws {
    try await DetachedTopology.with(Self.yaml, name: "gates") { topology in
      let tool = topology.tool
      let killed = try await InspectorProgram(tool, socket: "page.socket", "web")
      #expect(try await killed.client.get("/").status == 200)
      killed.program.signal(.kill)
      _ = try await killed.program.waitForExit(within: .seconds(60))
      let inspector = try await InspectorProgram(
        tool, socket: "page.socket", "web", "--host", "page.example")
      let client = inspector.client
      let own = ["Authorization": "Bearer \(inspector.token)"]
      #expect(try await client.get("/api/about").status == 401)
      #expect(try await client.get("/api/about", headers: own).status == 200)
      for (host, status) in [("page.example", 200), ("127.0.0.1:1", 200), ("evil.example", 421)] {
        #expect(try await client.get("/", headers: ["Host": host]).status == status)
      }
      let error = try await Self.refused(tool, ["web", "--socket", "page.socket"], code: 1)
      #expect(error.contains("another process listens at 'page.socket'"), "\(error)")
      try await inspector.stop(tool)
      #expect(!FileSystem.exists(tool.directory.path + "/page.socket"))
      let metrics = try await InspectorProgram(tool, socket: "metrics.socket", "metrics")
      #expect(try await metrics.metrics().contains("piperuntime_up{topology=\"gates\"} 1"))
      try await metrics.stop(tool)
    }
  }

  @Test("'run --web --socket' serves the page on a Unix socket until the run ends")
  func run() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.yaml, to: "gates.yaml")
      let program = try tool.start(
        ["run", "--web", "--socket", "page.socket", "--read-only", "--plain", "gates.yaml"])
      #expect(try await program.waitForOutput(containing: "#token=", within: .seconds(60)))
      let path = tool.directory.path + "/page.socket"
      #expect(try await WebClient(socket: path).get("/").status == 200)
      #expect(try await program.waitForOutput(containing: "gates: 1 node running"))
      program.signal(.interrupt)
      try await tool.end(of: program)
      #expect(!FileSystem.exists(path))
      let alone = try await tool.run("run", "--socket", "page.socket", "gates.yaml", code: 2)
      #expect(alone.error.contains("--socket requires --web"))
    }
  }

  @Test(
    "An inspector serves the page and metrics to curl over TLS (skipped without curl)",
    .enabled(if: FileSystem.exists(curl)),
    arguments: ["web", "metrics"])
  func encrypted(_ verb: String) async throws {
    try await DetachedTopology.with(Self.yaml, name: "gates") { topology in
      let tool = topology.tool
      let certificate = try tool.directory.write(TestCertificate.certificate, to: "page.pem")
      let key = try tool.directory.write(TestCertificate.key, to: "page.key")
      let inspector = try tool.start(
        program: InspectorProgram.path,
        [verb, "--port", "0", "--tls-certificate", certificate, "--tls-key", key])
      #expect(try await inspector.waitForOutput(containing: "\n", within: .seconds(60)))
      let line = inspector.outputText
      let address = try #require(
        line.split(separator: " ").last { $0.hasPrefix("https://127.0.0.1:") })
      let token = address.split(separator: "#token=").dropFirst().first?.prefix { $0 != "\n" } ?? ""
      let page = address.prefix { $0 != "#" && $0 != "\n" }
      // The certificate is self-signed, and a clock may be behind.
      let program = try tool.start(
        program: Self.curl,
        [
          "-sS", "--insecure", "--noproxy", "*", "-H", "Authorization: Bearer \(token)",
          verb == "web" ? "\(page)api/about" : String(page),
        ])
      let result = try await tool.end(of: program, within: .seconds(60))
      let wanted = verb == "web" ? #"{"readOnly":false}"# : "piperuntime_up{topology=\"gates\"} 1"
      #expect(result.output.contains(wanted), "\(result)")
      inspector.signal(.terminate)
      try await tool.end(of: inspector)
    }
  }

  @Test(
    "If a port is in use, the error names the process that uses the port",
    arguments: ["web", "metrics"])
  func inUse(_ verb: String) async throws {
    try await DetachedTopology.with(Self.yaml, name: "gates") { topology in
      let tool = topology.tool
      let inspector = try await InspectorProgram(tool, verb)
      let port = inspector.client.port
      let error = try await Self.refused(tool, [verb, "--port", String(port)], code: 1)
      #expect(
        error.contains(
          "port \(port) of 127.0.0.1 is in use by process \(inspector.program.pid), 'inspector'"),
        "\(error)")
      try await inspector.stop(tool)
    }
  }

  private static let mistakes: [([String], String)] = [
    (["--address", "0.0.0.0"], "other hosts can reach 0.0.0.0 and read unencrypted traffic"),
    (["--address", "::"], "--tls-certificate FILE"),
    (["--address", "192.0.2.1", "--host", "page.example"], "use TLS"),
    (["--address", "localhost"], "\(WebListenerError.invalidAddress("localhost"))"),
    (["--tls-key", "page.key"], "--tls-key requires --tls-certificate FILE"),
    (["--tls-certificate", "page.pem"], "--tls-certificate requires --tls-key FILE"),
    (["--host", "https://page.example"], "'https://page.example' is not a valid value for --host"),
    (["--host", "page.example:80"], "'page.example:80'"),
    (["--socket", "page.socket", "--port", "80"], "\(UsageError.conflict("--socket", "--port"))"),
    (
      ["--socket", "page.socket", "--tls-key", "k"],
      "\(UsageError.conflict("--socket", "--tls-key"))"
    ),
    (["--port", "65536"], "ports are numbers up to 65535"),
  ]

  @Test(
    "Incompatible address options cause errors that say what to do", arguments: mistakes)
  func refused(_ options: [String], _ reason: String) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let error = try await Self.refused(tool, ["web", "-p", "gates"] + options, code: 2)
    #expect(error.contains(reason), "\(error)")
  }
}
