import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("docs/TUTORIAL.md", .timed)
struct TutorialTests {
  private static let file = "docs/TUTORIAL.md"
  private static let curl = "/usr/bin/curl"

  @Test(
    "The commands of docs/TUTORIAL.md succeed in the document's order (skipped without curl or Python)",
    .enabled(if: PaymentService.isPossible && FileSystem.exists(curl)))
  func commands() async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.crashingNodes = Set(RunningShop.nodes)
      tool.environment["SHOP_GATEWAY"] = "\(try await Self.freePort(tool))"
      let port = try await Self.freePort(tool)
      let lines = try Document(Self.file).commands.filter { !$0.hasPrefix("make ") }
      // The test has its own build, directory and port, so that it can run beside other tests.
      let script = lines.joined(separator: "\n")
        .replacing(".build/tutorial", with: "$PIPERUNTIME_ROOT/tutorial")
        .replacing("$PWD/$PIPERUNTIME_ROOT", with: "$PIPERUNTIME_ROOT")
        .replacing("$PWD/.build/debug", with: CommandLineTool.products)
        .replacing(".build/debug", with: CommandLineTool.products)
        .replacing("8080", with: "\(port)")
      tool.environment["PATH"] = "/usr/bin:/bin"
      let program = try tool.start(
        program: "/bin/sh", ["-ec", script], in: PackagePath.root)
      let result = try await tool.result(of: program, within: .seconds(120))
      try #require(result.code == 0, "\(result)")
      for text in [
        "topologies/shop.yaml: exact: all reachable states were searched",
        "payments[4712]  no        charging(amount: 30, order: \"4712\")        1  the state has no",
        #""reason": "ended""#, "orders[4714]: shipped(amount: 30, points: 3)  (version 4)",
      ] {
        #expect(result.output.contains(text), "\(text): \(result)")
      }
      let counts = result.output.split(separator: "\n").filter { $0.contains(" charge,") }
      #expect(counts.count == 11)
      #expect(counts.allSatisfy { $0.hasPrefix("      1 ") }, "\(counts)")
    }
  }

  /// Returns a TCP port that no program uses.
  private static func freePort(_ tool: CommandLineTool) async throws -> Int {
    let program = try tool.start(
      program: "/usr/bin/python3",
      [
        "-c",
        "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])",
      ])
    let result = try await tool.result(of: program)
    return try #require(result.output.split(separator: "\n").first.flatMap { Int($0) })
  }

  @Test("The code in docs/TUTORIAL.md is a part of the files that the document names")
  func listings() throws {
    let text = try #require(FileSystem.text(of: PackagePath.root + "/" + Self.file))
    var files: [String] = []
    var count = 0
    let yaml = try Self.normalized("topologies/shop.yaml")
    for (index, part) in text.split(separator: "```").enumerated() {
      guard index.isMultiple(of: 2) else {
        let code = part.split(separator: "\n", maxSplits: 1).last.map(String.init) ?? ""
        if part.hasPrefix("swift\n") {
          let source = try Self.normalized(try #require(files.last))
          #expect(source.contains(Self.normalized(text: code)), "\(code)")
          count += 1
        } else if part.hasPrefix("yaml\n") {
          #expect(yaml.contains(Self.normalized(text: code)), "\(code)")
          count += 1
        }
        continue
      }
      // The last file that the prose names before the code.
      files += part.split(separator: "`").map(String.init).filter { $0.hasSuffix(".swift") }
    }
    #expect(count >= 7)
  }

  private static func normalized(_ file: String) throws -> String {
    normalized(text: try #require(FileSystem.text(of: PackagePath.root + "/" + file)))
  }

  /// Returns the lines without indentation and access levels.
  private static func normalized(text: String) -> String {
    text.replacing("package ", with: "").split(separator: "\n")
      .map { String($0.drop { $0 == " " }) }.joined(separator: "\n")
  }
}
