import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// Clients of a deployed topology on another host: they have directories of their own, without the
/// run, and a copy of its key file.
struct OtherHost {
  let tool: CommandLineTool

  /// The name of the key file in its directory.
  static let key = "ward.key"

  /// Runs a deployed topology with clients beside it.
  static func with(
    _ yaml: String, deployment: String,
    _ body: (DetachedTopology, OtherHost) async throws -> Void
  ) async throws {
    try await DetachedTopology.with(yaml, deployment: deployment) { ward in
      try await beside(ward) { try await body(ward, $0) }
    }
  }

  /// Calls back with clients beside a topology.
  /// - Parameter prefix: The words that run the clients on another network.
  static func beside(
    _ ward: DetachedTopology, prefix: [String] = [],
    _ body: (OtherHost) async throws -> Void
  ) async throws {
    var tool = try CommandLineTool()
    tool.prefix = prefix
    defer { tool.remove() }
    let host = OtherHost(tool: tool)
    try host.copyKey(of: ward)
    try await body(host)
  }

  /// The path of the key file.
  var key: String { tool.directory.path + "/" + Self.key }

  func copyKey(of ward: DetachedTopology) throws {
    let text = try #require(FileSystem.text(of: try ward.directories.clientKey))
    try tool.directory.write(text, to: Self.key)
  }

  /// Writes a copy of the key file with a part replaced.
  func write(_ name: String, replacing part: String, with other: String) throws {
    let text = try #require(FileSystem.text(of: key))
    try #require(text.contains(part))
    try tool.directory.write(text.replacing(part, with: other), to: name)
  }

  /// The orchestrator's endpoint and public key, as in the key file.
  var control: (endpoint: String, key: String) {
    get throws {
      let bytes = try #require(FileSystem.contents(of: key))
      let control = try #require(try JSONValue(parsing: bytes)["control"])
      let endpoint = try #require(control["endpoint"]?.string)
      return (endpoint, try #require(control["key"]?.string))
    }
  }

  /// Starts a verb on the topology.
  func start(_ arguments: String...) throws -> LaunchedProgram {
    try tool.start(CommandLineTool.withLongTimeout(arguments) + ["--key", Self.key])
  }

  /// Runs a verb on the topology to its end, and expects this exit code.
  @discardableResult
  func run(
    _ arguments: String..., code: Int32 = 0, at location: SourceLocation = #_sourceLocation
  ) async throws -> CommandLineTool.Result {
    let program = try tool.start(CommandLineTool.withLongTimeout(arguments) + ["--key", Self.key])
    return try await tool.end(of: program, within: .seconds(60), code: code, at: location)
  }

  /// Waits until a verb has written this text.
  func await(
    _ text: String, of program: LaunchedProgram, at location: SourceLocation = #_sourceLocation
  ) async throws {
    let hasAppeared = try await program.waitForOutput(containing: text, within: .seconds(60))
    #expect(
      hasAppeared, "\(program.outputText)\n\(program.errorText)", sourceLocation: location)
  }
}
