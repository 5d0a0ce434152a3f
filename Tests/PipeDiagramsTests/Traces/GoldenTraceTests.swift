import Glibc
import PipeSystem
import PipeDiagrams
import Testing

/// Whole files as other programs read them. Where a form changes, `GOLDENS=write` before `swift test` writes them
/// anew, for somebody to open in those programs.
@Suite("A trace of several nodes, as a file")
struct GoldenTraceTests {
  private static let folder = FileSystem.directory(of: #filePath) + "/goldens"

  @Test("is the same for the same steps, byte for byte", arguments: [TraceForm.chrome, .otlp])
  func golden(_ form: TraceForm) throws {
    let path = "\(Self.folder)/house.\(form.rawValue).json"
    let text = try House.written(form)
    if getenv("GOLDENS").map({ String(cString: $0) }) == "write" {
      try FileSystem.replace(path, with: Array(text.utf8))
    }
    #expect(FileSystem.text(of: path) == text)
  }
}
