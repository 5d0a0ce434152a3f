import Glibc
import PipeRuntime
import Testing

@Suite("The examples in the documentation")
struct DocumentationTests {
  private static let root: String = {
    // Tests/DocumentationTests/DocumentationTests.swift
    var path = #filePath
    for _ in 0..<3 { path = FileSystem.parentDirectory(of: path) }
    return path
  }()

  private static let catalogue = root + "/Sources/PipeRuntime/PipeRuntime.docc"
  private static let sources = FileSystem.parentDirectory(of: #filePath)

  @Test("The Swift examples in the documentation are exactly the examples compiled by these tests")
  func examples() throws {
    let compiled = try Set(Self.compiledExamples())
    let shown = try Self.blocks("swift")
    for block in shown {
      #expect(
        compiled.contains(block.text), "\(block.file) shows what no test compiles:\n\(block.text)")
    }
    let texts = Set(shown.map(\.text))
    for text in compiled {
      #expect(texts.contains(text), "no article shows what is compiled for it:\n\(text)")
    }
    #expect(shown.count > 20)
  }

  @Test("The topologies in the documentation pass the check against their machines")
  func topologies() throws {
    let blocks = try Self.blocks("yaml")
    #expect(!blocks.isEmpty)
    for block in blocks {
      let reading = try TopologyReader.read(text: block.text.utf8, file: block.file)
      let program = ProgramDescription(
        program: reading.topology.program ?? "", protocolVersion: 1,
        machines: [
          try Thermostat.describe(Thermostat.Parameters()), try Boiler.describe(NoParameters()),
        ])
      let diagnostics = TopologyChecker.check(
        reading.topology, source: reading.source,
        against: .init(programs: [program.program: program]))
      #expect(diagnostics.isEmpty)
    }
  }

  /// Returns the texts between `docs: begin` and `docs: end` in the sources of these tests.
  private static func compiledExamples() throws -> [String] {
    var examples: [String] = []
    for file in FileSystem.entryNames(of: sources) where file.hasSuffix(".swift") {
      var current: [String]?
      for line in try lines(of: sources + "/" + file) {
        switch line.drop(while: { $0 == " " }) {
        case "// docs: begin": current = []
        case "// docs: end":
          examples.append(joined(current ?? []))
          current = nil
        default: current?.append(line)
        }
      }
      #expect(current == nil, "\(file): 'docs: begin' without an end")
    }
    return examples
  }

  /// Returns the code blocks of the articles in one language.
  private static func blocks(_ language: String) throws -> [(file: String, text: String)] {
    var blocks: [(file: String, text: String)] = []
    for file in FileSystem.entryNames(of: catalogue) where file.hasSuffix(".md") {
      var current: [String]?
      var isWanted = false
      for line in try lines(of: catalogue + "/" + file) {
        if line.hasPrefix("```") {
          if let lines = current {
            if isWanted { blocks.append((file, joined(lines))) }
            current = nil
          } else {
            isWanted = line == "```" + language
            current = []
          }
        } else {
          current?.append(line)
        }
      }
      #expect(current == nil, "\(file): a code block without an end")
    }
    return blocks
  }

  /// Joins the lines, without their common indentation.
  private static func joined(_ lines: [String]) -> String {
    let indentation = lines.filter { !$0.isEmpty }.map { $0.prefix { $0 == " " }.count }.min() ?? 0
    return lines.map { String($0.dropFirst(indentation)) + "\n" }.joined()
  }

  private static func lines(of path: String) throws -> [String] {
    let descriptor = open(path, O_RDONLY)
    try #require(descriptor >= 0, "\(path): errno \(errno)")
    defer { Glibc.close(descriptor) }
    return String(decoding: try FileSystem.read(descriptor), as: UTF8.self)
      .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
  }
}
