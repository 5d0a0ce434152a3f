import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("README.md", .timed)
struct ReadmeTests {
  @Test("The commands in README.md succeed in order")
  func commands() async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    tool.environment["PATH"] = CommandLineTool.products + ":/usr/bin:/bin"
    let commands = try Readme().commands
    #expect(commands.contains("orchestrator down"))
    // Skips 'make' commands: this test is part of one, and others never end.
    for command in commands where !command.hasPrefix("make ") {
      let program = try tool.start(program: "/bin/sh", ["-c", command], in: PackagePath.root)
      let result = try await tool.result(of: program, within: .seconds(60))
      #expect(result.code == 0, "\(command): \(result)")
    }
  }

  @Test("The make targets in README.md exist")
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

/// The location of this package.
enum PackagePath {
  static let root: String = {
    // Tests/EndToEndTests/Documentation/ReadmeTests.swift
    var path = #filePath
    for _ in 0..<4 { path = FileSystem.directory(of: path) }
    return path
  }()
  static let isWorkTree = FileSystem.exists(root + "/.git")
}
