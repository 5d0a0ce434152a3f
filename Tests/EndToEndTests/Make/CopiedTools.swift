import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// A folder with the scripts that `make` calls and without a build. Stand-ins for programs come
/// first on its PATH.
struct CopiedTools {
  let tool: CommandLineTool
  /// The folder of the Makefile.
  var path: String { tool.directory.path + "/checkout" }
  /// The folder of the stand-ins.
  private var programs: String { tool.directory.path + "/programs" }

  static let version = "Swift version 6.3.1 (swift-6.3.1-RELEASE)"

  init() async throws {
    tool = try CommandLineTool()
    try FileSystem.makeDirectories(path)
    try FileSystem.makeDirectories(programs)
    try await run(
      "cp -R Makefile tools '\(path)' && chmod 755 '\(tool.directory.path)' '\(path)'",
      in: PackagePath.root)
    // The package 'dpkg' is installed wherever the check can run.
    try write("dpkg\n", to: "debian-packages.txt")
    try standIn("swift", "echo '\(Self.version)'")
    // Makes the test independent of the free space on the disk.
    try standIn("df", Self.disk(free: 50_000))
  }

  func remove() { tool.remove() }

  /// Returns the script of a `df` that reports this free space. Unit: MB.
  static func disk(free: Int) -> String { "printf 'header\\n/dev/vda 0 0 \(free) 0%% /\\n'" }

  /// Replaces a program by a script.
  func standIn(_ program: String, _ script: String) throws {
    try tool.directory.write("#!/bin/sh\n\(script)\n", to: "programs/" + program, mode: 0o755)
  }

  /// Writes a file of the checkout.
  func write(_ text: String, to name: String) throws {
    try tool.directory.write(text, to: "checkout/" + name, mode: 0o644)
  }

  /// Runs a line of the shell.
  func run(_ line: String, in directory: String? = nil) async throws {
    let program = try tool.start(
      program: "/bin/sh", ["-c", line], in: directory ?? path)
    let result = try await tool.result(of: program)
    try #require(result.code == 0, "\(line): \(result)")
  }

  /// Runs one of the checkout's programs to its end.
  /// - Parameter asNobody: Whether to drop root privileges, if the tests run as root.
  func call(_ words: String..., asNobody: Bool = false) async throws -> CommandLineTool.Result {
    try await call(words, asNobody: asNobody)
  }

  func call(_ words: [String], asNobody: Bool = false) async throws -> CommandLineTool.Result {
    // The test may itself run under make.
    var command = [
      "/usr/bin/env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "-u", "MFLAGS", "-u", "SWIFT",
    ]
    if asNobody, geteuid() == 0 {
      command.insert(
        contentsOf: ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], at: 0)
    }
    command += ["PATH=\(programs):/usr/sbin:/usr/bin:/sbin:/bin"] + words
    let program = try tool.start(program: command[0], Array(command.dropFirst()), in: path)
    return try await tool.result(of: program, within: .seconds(120))
  }

  /// Expects an error of one sentence, followed by at most make's own line.
  func expect(
    _ result: CommandLineTool.Result, says sentence: [String],
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(result.code != 0, "\(result)", sourceLocation: sourceLocation)
    let lines = result.error.split(separator: "\n")
    #expect(
      lines.dropFirst().allSatisfy { $0.hasPrefix("make: *** ") }, "\(result)",
      sourceLocation: sourceLocation)
    #expect(lines.first?.hasPrefix("error: ") == true, "\(result)", sourceLocation: sourceLocation)
    for part in sentence {
      #expect(
        lines.first?.contains(part) == true, "'\(part)': \(result)", sourceLocation: sourceLocation)
    }
  }
}
