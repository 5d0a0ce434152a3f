import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// The payment service of the shop, `gateway.py`, which runs beside the topology of a test.
struct PaymentService {
  private static let python = "/usr/bin/python3"
  static let isPossible = FileSystem.exists(python)
  private static let scripts = PackagePath.root + "/Sources/Nodes/Shop/"

  /// A row of the service's ledger.
  struct Entry: Hashable {
    var kind: String
    var order: String
    var amount: Int
  }

  let program: LaunchedProgram
  let port: Int
  private let ledgerPath: String

  /// Starts a script of the shop, which listens on a TCP port of this host.
  /// - Returns: The running script, and its port.
  static func start(
    _ script: String, _ arguments: [String], with tool: CommandLineTool
  ) async throws -> (program: LaunchedProgram, port: Int) {
    let program = try tool.start(program: python, [scripts + script] + arguments)
    let isListening = try await program.waitForOutput(
      containing: "listening on", within: .seconds(30))
    try #require(isListening, "\(program.outputText)\(program.errorText)")
    let line = try #require(program.outputText.split(separator: "\n").first)
    return (program, try #require(line.split(separator: ":").last.flatMap { Int($0) }))
  }

  /// Starts the service.
  /// - Parameters:
  ///   - failures: The fraction of the requests that fail.
  ///   - port: The port; 0 for any free port.
  init(with tool: CommandLineTool, failures: Double, port: Int = 0) async throws {
    ledgerPath = tool.directory.path + "/ledger.csv"
    (program, self.port) = try await Self.start(
      "gateway.py",
      ["--port", "\(port)", "--ledger", ledgerPath, "--failures", "\(failures)", "--seed", "1"],
      with: tool)
  }

  /// Kills the service.
  func kill() async throws {
    program.signal(.kill)
    _ = try await program.waitForExit(within: .seconds(30))
  }

  /// The charges and refunds.
  var ledger: [Entry] {
    (FileSystem.text(of: ledgerPath) ?? "").split(whereSeparator: \.isNewline).compactMap { line in
      let cells = line.split(separator: ",")
      guard cells.count == 4, let amount = Int(cells[2]) else { return nil }
      return Entry(kind: String(cells[0]), order: String(cells[1]), amount: amount)
    }
  }
}
