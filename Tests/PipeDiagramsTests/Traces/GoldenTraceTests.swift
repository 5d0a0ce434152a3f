import Glibc
import PipeSystem
import PipeDiagrams
import Testing

/// Compares whole files as other programs read them. After a change of a format, run `swift test`
/// with `GOLDENS=write` to write the files again, and open them in those programs.
@Suite("A trace of several nodes as a file")
struct GoldenTraceTests {
  private static let folder = FileSystem.parentDirectory(of: #filePath) + "/goldens"

  @Test(
    "The same steps are written to the same trace file, byte for byte",
    arguments: [TraceFormat.chrome, .otlp])
  func golden(_ form: TraceFormat) throws {
    let path = "\(Self.folder)/house.\(form.rawValue).json"
    let text = try House.written(form)
    if getenv("GOLDENS").map({ String(cString: $0) }) == "write" {
      try FileSystem.replace(path, with: Array(text.utf8))
    }
    #expect(FileSystem.text(of: path) == text)
  }
}
