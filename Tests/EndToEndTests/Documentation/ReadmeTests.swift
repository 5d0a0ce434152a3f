import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import Testing

@Suite("README.md")
struct ReadmeTests {
  @Test("its commands run, in their order, and succeed")
  func commands() async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    tool.environment["PATH"] = CommandLineTool.products + ":/usr/bin:/bin"
    let commands = try Readme().commands
    #expect(commands.contains("orchestrator down"))
    // The two that this test is part of, or that never end by themselves, are left out.
    for command in commands where !command.hasPrefix("make ") {
      let program = try tool.start(program: "/bin/sh", ["-c", command], in: PackagePath.root)
      let result = try await tool.result(of: program, within: .seconds(60))
      #expect(result.code == 0, "\(command): \(result)")
    }
  }

  @Test("'make' knows the targets that it names")
  func targets() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    for command in try Readme().commands where command.hasPrefix("make ") {
      let words = command.split(separator: " ").map(String.init)
      let program = try tool.start(
        program: "/usr/bin/make", ["--dry-run"] + words.dropFirst(), in: PackagePath.root)
      let result = try await tool.result(of: program)
      #expect(result.code == 0, "\(command): \(result)")
    }
  }
}

@Suite("The package of README.md")
struct ReadmePackageTests {
  @Test("builds as it stands there, is checked and runs")
  func package() async throws {
    // The build stays in the package's own build directory: only the first one takes long.
    let directory = PackagePath.root + "/.build/readme/Crossing"
    for file in try Readme().files {
      let path = directory + "/" + file.path
      try FileSystem.makeDirectories(FileSystem.directory(of: path))
      try write(file.text, to: path)
    }
    // The README's package stands beside the checkout.
    let link = PackagePath.root + "/.build/readme/PipeRuntime"
    unlink(link)
    try #require(symlink(PackagePath.root, link) == 0)
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let build = try tool.start(program: "/usr/bin/env", ["swift", "build"], in: directory)
    let built = try await tool.result(of: build, within: .seconds(900))
    try #require(built.code == 0, "\(built)")
    let check = try await tool.run("check", directory + "/crossing.yaml")
    #expect(check.code == 0, "\(check)")
    let run = try await tool.run(
      "run", "--plain", "--timeout", "3s", directory + "/crossing.yaml", within: .seconds(30))
    #expect(run.code == 0, "\(run)")
    #expect(run.output.contains("green"), "\(run)")
  }

  private func write(_ text: String, to path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
    try #require(descriptor >= 0, "\(path): errno \(errno)")
    defer { close(descriptor) }
    let bytes = Array(text.utf8)
    #expect(Glibc.write(descriptor, bytes, bytes.count) == bytes.count)
  }
}

/// Where this package is.
enum PackagePath {
  static let root: String = {
    // Tests/EndToEndTests/Documentation/ReadmeTests.swift
    var path = #filePath
    for _ in 0..<4 { path = FileSystem.directory(of: path) }
    return path
  }()
}
