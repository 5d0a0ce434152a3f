import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestSupport
import TestTraits
import Testing

@Suite("The commands in the documents", .timed)
struct DocumentTests {
  @Test("The commands of a document succeed in the document's order", arguments: Document.tours)
  func commands(file: String) async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    tool.environment["PATH"] = CommandLineTool.products + ":/usr/bin:/bin"
    let commands = try Document(file).commands
    #expect(commands.contains("orchestrator down"))
    // Targets of 'make' contain this test, or run until they are stopped.
    for command in commands where !command.hasPrefix("make ") {
      let program = try tool.start(program: "/bin/sh", ["-c", command], in: PackagePath.root)
      let result = try await tool.result(of: program, within: .seconds(60))
      #expect(result.code == 0, "\(command): \(result)")
    }
  }

  @Test(
    "The Makefile has the targets that the documents name",
    arguments: Document.tours + ["docs/FIGURES.md"])
  func targets(file: String) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    for command in try Document(file).commands where command.hasPrefix("make ") {
      let program = try tool.start(
        program: "/bin/sh", ["-c", "make --dry-run" + command.dropFirst(4)], in: PackagePath.root)
      let result = try await tool.result(of: program)
      #expect(result.code == 0, "\(command): \(result)")
    }
  }
}

@Suite("The changelog", .timed)
struct ChangelogTests {
  @Test("The newest version in CHANGELOG.md is the version of the orchestrator")
  func version() async throws {
    let changelog = String(decoding: try packageFile("CHANGELOG.md"), as: UTF8.self)
    let versions = changelog.split(separator: "\n").compactMap { line in
      line.hasPrefix("## [") && line.contains("] - ")
        ? line.dropFirst(4).prefix { $0 != "]" } : nil
    }
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let result = try await tool.run("version", code: 0)
    #expect(result.output == "orchestrator \(versions.first ?? "")\n")
  }
}

/// The folder of this package.
enum PackagePath {
  static let root: String = {
    // Tests/EndToEndTests/Documentation/DocumentTests.swift
    var path = #filePath
    for _ in 0..<4 { path = FileSystem.parentDirectory(of: path) }
    return path
  }()
  static let isWorkTree = FileSystem.exists(root + "/.git")
}
