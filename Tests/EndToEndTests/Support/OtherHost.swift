import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// Clients of a deployed topology that behave as if they were on another host.
///
/// The clients have their own directories, which do not contain the topology's files, and a copy of
/// the topology's key file.
struct OtherHost {
  let tool: CommandLineTool

  /// The name of the key file in the clients' directory.
  static let key = "ward.key"

  /// Starts a deployed topology, and runs a closure with clients of the topology.
  static func with(
    _ yaml: String, deployment: String,
    _ body: (DetachedTopology, OtherHost) async throws -> Void
  ) async throws {
    try await DetachedTopology.with(yaml, deployment: deployment) { ward in
      try await beside(ward) { try await body(ward, $0) }
    }
  }

  /// Runs a closure with clients of a running topology.
  /// - Parameter prefix: The words before a command line that make the clients run on another
  ///   network.
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
    let text = try #require(FileSystem.text(of: try ward.directories.clientKeyFile))
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

  /// Starts a verb that connects to the topology with the key file.
  func start(_ arguments: String...) throws -> LaunchedProgram {
    try tool.start(CommandLineTool.withLongTimeout(arguments) + ["--key", Self.key])
  }

  /// Runs a verb with the key file, waits for its end, and expects an exit code.
  @discardableResult
  func run(
    _ arguments: String..., code: Int32 = 0, at location: SourceLocation = #_sourceLocation
  ) async throws -> CommandLineTool.Result {
    let program = try tool.start(CommandLineTool.withLongTimeout(arguments) + ["--key", Self.key])
    return try await tool.end(of: program, within: .seconds(60), code: code, at: location)
  }

  /// Waits until a verb has written a text.
  func await(
    _ text: String, of program: LaunchedProgram, at location: SourceLocation = #_sourceLocation
  ) async throws {
    let hasAppeared = try await program.waitForOutput(containing: text, within: .seconds(60))
    #expect(
      hasAppeared, "\(program.outputText)\n\(program.errorText)", sourceLocation: location)
  }
}
