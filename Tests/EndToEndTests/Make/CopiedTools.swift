import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// A folder with what `make` calls, in which nothing is built: the programs that it finds first are
/// stand-ins.
struct CopiedTools {
  let tool: CommandLineTool
  /// Where the Makefile is.
  var path: String { tool.directory.path + "/checkout" }
  /// Where the stand-ins are.
  private var programs: String { tool.directory.path + "/programs" }

  static let version = "Swift version 6.3.1 (swift-6.3.1-RELEASE)"

  init() async throws {
    tool = try CommandLineTool()
    try FileSystem.makeDirectories(path)
    try FileSystem.makeDirectories(programs)
    try await run(
      "cp -R Makefile tools '\(path)' && chmod 755 '\(tool.directory.path)' '\(path)'",
      in: PackagePath.root)
    // It is installed wherever this can be asked for.
    try write("dpkg\n", to: "debian-packages.txt")
    try standIn("swift", "echo '\(Self.version)'")
    // Whatever the disk is like on which the tests run.
    try standIn("df", Self.disk(free: 50_000))
  }

  func remove() { tool.remove() }

  /// The script of a `df` that tells this. Unit: MB.
  static func disk(free: Int) -> String { "printf 'header\\n/dev/vda 0 0 \(free) 0%% /\\n'" }

  /// Puts a script in a program's place.
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

  /// Runs one of its programs to its end.
  /// - Parameter asNobody: Without root's rights, where the tests have them.
  func call(_ words: String..., asNobody: Bool = false) async throws -> CommandLineTool.Result {
    try await call(words, asNobody: asNobody)
  }

  func call(_ words: [String], asNobody: Bool = false) async throws -> CommandLineTool.Result {
    // This may be a test of a make that is called by a make.
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

  /// Expects one sentence of an error, beside which there is at most make's own line.
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
