import PipeRuntime

/// The commands to go on with in a package that was written.
package struct NextSteps: Hashable, Sendable {
  /// The package's folder, as the person would write it.
  package var folder: String
  /// The topology file in it.
  package var topology: String
  /// How this orchestrator is called there.
  package var orchestrator: String

  package init(folder: String, topology: String, orchestrator: String) {
    self.folder = folder
    self.topology = topology
    self.orchestrator = orchestrator
  }

  package var lines: [String] {
    [
      "Next:",
      "  cd \(Self.word(folder))",
      "  swift build  # the first one compiles PipeRuntime, too",
      "  \(Self.word(orchestrator)) run \(topology)",
      "  swift test",
    ]
  }

  /// A word as a shell reads it.
  private static func word(_ text: String) -> String {
    let isPlain = text.utf8.allSatisfy { byte in
      isSafeName("_" + String(UnicodeScalar(byte))) || byte == UInt8(ascii: "/")
    }
    return isPlain ? text : "'" + text.replacing("'", with: "'\\''") + "'"
  }
}
