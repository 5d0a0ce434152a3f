import PipeRuntime
import PipeRuntimeTestKit
import TestSupport
import TestTraits
import Testing

@Suite("make install", .timed)
struct InstallTests {
  /// Runs a target of the Makefile for a directory of the test, with the programs of the tests.
  private static func make(
    _ target: String, _ tool: CommandLineTool, prefix: String = "/usr/local", code: Int32 = 0
  ) async throws -> CommandLineTool.Result {
    let program = try tool.start(
      program: "/usr/bin/make",
      ["-s", target, "PREFIX=\(prefix)", "DESTDIR=\(tool.directory.path)/root"],
      in: PackagePath.root)
    return try await tool.end(of: program, within: .seconds(120), code: code)
  }

  private static func withTool(_ body: (CommandLineTool) async throws -> Void) async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    tool.environment = [
      "PROGRAMS": CommandLineTool.products,
      "PATH": ProcessEnvironment.current["PATH"] ?? "/usr/bin:/bin",
    ]
    try await body(tool)
  }

  /// Returns the paths of the installed files, sorted.
  private static func files(_ tool: CommandLineTool) async throws -> [String] {
    let program = try tool.start(
      program: "/bin/sh", ["-c", "find root -type f -o -type l | sort"])
    return try await tool.end(of: program).output.split(separator: "\n").map(String.init)
  }

  @Test("Installed programs, units and examples work in the directory PREFIX")
  func installs() async throws {
    try await Self.withTool { tool in
      _ = try await Self.make("install", tool)
      let root = tool.directory.path + "/root/usr/local"
      let files = try await Self.files(tool)
      for file in [
        "bin/inspector", "share/man/man1/orchestrator.1.gz",
        "share/zsh/site-functions/_orchestrator",
        "share/bash-completion/completions/orchestrator", "share/piperuntime/topology.schema.json",
        "lib/systemd/user/piperuntime@.service", "lib/piperuntime/examples/movies.json",
      ] { #expect(files.contains("root/usr/local/" + file), "\(file)") }
      let unit = FileSystem.text(of: root + "/lib/systemd/system/piperuntime@.service") ?? ""
      #expect(unit.contains("\nExecStart=/usr/local/bin/orchestrator run --service "), "\(unit)")
      #expect(!unit.contains(CommandLineTool.products), "\(unit)")
      let check = try tool.start(
        program: root + "/bin/orchestrator",
        ["check", root + "/lib/piperuntime/examples/elevator.yaml"])
      let result = try await tool.end(of: check, within: .seconds(60))
      #expect(result.output.contains(": ok: "), "\(result)")
      _ = try await Self.make("uninstall", tool)
      #expect(try await Self.files(tool) == [])
    }
  }

  @Test("'make install' without a build says what to do")
  func notBuilt() async throws {
    try await Self.withTool { tool in
      var tool = tool
      tool.environment["PROGRAMS"] = "/nowhere"
      let result = try await Self.make("install", tool, code: 2)
      #expect(
        result.error.contains(
          "error: there is no '/nowhere/orchestrator'; run 'make build', and try again"),
        "\(result)")
    }
  }

  @Test(
    "mandoc finds no mistake in the manual pages",
    .enabled(
      if: FileSystem.exists("/usr/bin/mandoc"),
      "Debian's 'mandoc' is not installed: 'tools/setup mandoc' does that"),
    arguments: ["orchestrator", "inspector"])
  func manualPages(program: String) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let path = CommandLineTool.products + "/" + program
    let page = try await tool.end(of: tool.start(program: path, ["help", "--man"]))
    try tool.directory.write(page.output, to: "page.1")
    let lint = try tool.start(
      program: "/usr/bin/mandoc", ["-Tlint", "-W", "warning", "page.1"])
    let mistakes = try await tool.end(of: lint)
    #expect(mistakes.output == "", "\(mistakes)")
    #expect(page.output.contains("\n.SH EXIT STATUS\n"), "\(page)")
  }

  @Test("The date of the manual pages is the date of the newest version in CHANGELOG.md")
  func date() async throws {
    let changelog = String(decoding: try packageFile("CHANGELOG.md"), as: UTF8.self)
    let heading = changelog.split(separator: "\n").first {
      $0.hasPrefix("## [") && $0.contains("] - ")
    }
    #expect(heading == "## [\(Release.version)] - \(Release.date)")
  }
}
