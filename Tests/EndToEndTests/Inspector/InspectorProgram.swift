import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// A running `inspector` and a client of it.
struct InspectorProgram {
  let program: LaunchedProgram
  let client: WebClient

  /// Starts the inspector at a free port, and returns once it listens.
  init(_ tool: CommandLineTool, _ arguments: String...) async throws {
    try await self.init(tool, arguments)
  }

  /// Starts the inspector at a free port, and returns once it listens.
  init(_ tool: CommandLineTool, _ arguments: [String]) async throws {
    let program = try tool.start(program: Self.path, arguments + ["--port", "0"])
    let port: UInt16? = try await poll(every: .milliseconds(10), within: .seconds(60)) {
      program.outputText.split(separator: "\n").first { $0.contains("http://") }
        .flatMap { $0.split(separator: ":").last }
        .flatMap { UInt16($0.prefix { $0.isNumber }) }
    }
    self.program = program
    client = WebClient(port: try #require(port, "\(program.outputText)\(program.errorText)"))
  }

  /// Starts the inspector at a socket in the test's directory, and returns once it listens.
  init(_ tool: CommandLineTool, socket: String, _ arguments: String...) async throws {
    program = try tool.start(program: Self.path, arguments + ["--socket", socket])
    guard try await program.waitForOutput(containing: "\n", within: .seconds(60)) else {
      throw UnexpectedResult("\(program.outputText)\(program.errorText)")
    }
    client = WebClient(socket: tool.directory.path + "/" + socket)
  }

  /// The token after `#` in the address that the inspector has printed.
  var token: String {
    String(program.outputText.split(separator: "#token=").last?.prefix { $0 != "\n" } ?? "")
  }

  static var path: String { CommandLineTool.products + "/inspector" }

  /// Returns the lines of the inspector's metrics.
  func metrics() async throws -> [String] {
    try await client.get("/metrics").body.split(separator: "\n").map(String.init)
  }

  /// Waits until the metrics have this line.
  func await(_ line: String) async throws { try await self.await(line) { $0 == line } }

  /// Waits until a line of the metrics satisfies the condition.
  func await(
    _ what: String = "the expected event", _ isExpected: (String) -> Bool
  ) async throws {
    var last: [String] = []
    let found: Bool? = try await poll(every: .milliseconds(20), within: .seconds(60)) {
      last = try await metrics()
      return last.contains(where: isExpected) ? true : nil
    }
    #expect(found == true, "\(what) is not in:\n\(last.joined(separator: "\n"))")
  }

  /// Stops the inspector gracefully.
  func stop(_ tool: CommandLineTool) async throws {
    program.signal(.terminate)
    try await tool.end(of: program)
  }
}

extension WebClient {
  /// The port of the server, or 0 for a server at a socket.
  var port: UInt16 { host.split(separator: ":").last.flatMap { UInt16($0) } ?? 0 }
}
