import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("docs/internal/SEEDS.md", .timed)
struct SeedsTests {
  private struct Row {
    let named: String
    let files: [String]
    let tests: [String]
  }

  private static func read(_ path: String) throws -> String {
    let descriptor = open(PackagePath.root + "/" + path, O_RDONLY)
    defer { close(descriptor) }
    return String(decoding: try FileSystem.read(descriptor), as: UTF8.self)
  }

  /// Returns the files of a folder and of its subfolders.
  private static func files(in folder: String) -> [String] {
    FileSystem.entryNames(of: PackagePath.root + "/" + folder).flatMap { name in
      let path = folder + "/" + name
      return FileSystem.isDirectory(PackagePath.root + "/" + path) ? files(in: path) : [path]
    }
  }

  /// Returns the rows of all tables.
  private static func rows() throws -> [Row] {
    try read("docs/internal/SEEDS.md").split(separator: "\n").compactMap { line in
      let cells = line.split(separator: "|").map(String.init)
      guard line.hasPrefix("| "), cells.count == 3, !cells[0].hasPrefix(" ---"),
        cells[0] != " named there ", cells[0] != " there "
      else { return nil }
      let files = quoted(cells[1], by: "`").filter {
        $0.hasSuffix(".swift") || $0.hasSuffix(".yaml")
      }
      return Row(named: cells[0], files: files, tests: quoted(cells[2], by: "\""))
    }
  }

  private static func quoted(_ text: String, by mark: Character) -> [String] {
    let parts = text.split(separator: mark, omittingEmptySubsequences: false).map(String.init)
    return parts.indices.filter { $0 % 2 == 1 }.map { parts[$0] }
  }

  /// Returns the names after `@Test(`, on the same line or on the next one.
  private static func testNames() throws -> Set<String> {
    let code = try files(in: "Tests").filter { $0.hasSuffix(".swift") }.map(read)
    return Set(
      code.flatMap { text in
        text.split(separator: "@Test(").dropFirst().compactMap { rest in
          let rest = rest.drop { $0 == " " || $0 == "\n" }
          guard rest.first == "\"" else { return nil }
          return rest.dropFirst().split(separator: "\"", maxSplits: 1).first.map(String.init)
        }
      })
  }

  @Test("Each row of docs/internal/SEEDS.md names existing tests")
  func tests() throws {
    let names = try Self.testNames()
    let rows = try Self.rows()
    #expect(rows.count > 60)
    for row in rows {
      #expect(!row.tests.isEmpty, "\(row.named)")
      for test in row.tests {
        #expect(names.contains(test), "no test '\(test)', for\(row.named)")
      }
    }
  }

  @Test("The files named in docs/internal/SEEDS.md exist")
  func files() throws {
    let known = Self.files(in: "Sources") + Self.files(in: "topologies")
    for row in try Self.rows() {
      for file in row.files {
        #expect(known.contains { ("/" + $0).hasSuffix("/" + file) }, "\(file), for\(row.named)")
      }
    }
  }
}
