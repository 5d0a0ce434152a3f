import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("docs/STYLES.md", .timed)
struct StylesTests {
  private static func read(_ path: String) throws -> String {
    let descriptor = open(PackagePath.root + "/" + path, O_RDONLY)
    defer { close(descriptor) }
    return String(decoding: try FileSystem.read(descriptor), as: UTF8.self)
  }

  /// Returns the code after each `From `FILE`:`.
  private static func listings() throws -> [(file: String, code: String)] {
    let parts = try read("docs/STYLES.md").split(separator: "\nFrom `").dropFirst()
    return try parts.map { part in
      let file = part.prefix { $0 != "`" }
      let blocks = part.split(separator: "```swift\n", maxSplits: 1)
      let code = try #require(blocks.last?.split(separator: "\n```", maxSplits: 1).first)
      return (String(file), String(code))
    }
  }

  @Test("The code in docs/STYLES.md equals the code in the files that the document names")
  func listed() throws {
    let listings = try Self.listings()
    #expect(listings.count == 5)
    for (file, code) in listings {
      let source = try Self.read(file).replacing("package ", with: "")
      #expect(source.contains(code), "\(file)")
    }
  }

  @Test("The line counts in docs/STYLES.md are correct")
  func lines() throws {
    let document = try Self.read("docs/STYLES.md")
    for (file, _) in try Self.listings() {
      let count = try Self.read(file).split(separator: "\n")
        .filter { line in
          let text = line.drop { $0 == " " }
          return !text.isEmpty && !text.hasPrefix("//")
        }.count
      #expect(document.contains("| \(count) |"), "\(file) has \(count) lines")
    }
  }
}
