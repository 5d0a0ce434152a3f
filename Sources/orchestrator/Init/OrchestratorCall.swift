/// How the running orchestrator was called, and so how it is called from elsewhere.
package struct OrchestratorCall: Hashable, Sendable {
  /// The first word of its command line.
  package var word: String
  /// Its executable, without links.
  package var executable: String
  package var workingDirectory: String

  package init(word: String, executable: String, workingDirectory: String) {
    self.word = word
    self.executable = executable
    self.workingDirectory = workingDirectory
  }

  /// Its name where it was found in `PATH`, and otherwise its path.
  /// - Parameters:
  ///   - folder: From where it is to be called.
  ///   - search: The folders of `PATH` that have one of its name.
  package func spelled(from folder: String, search: [String]) -> String {
    // A relative folder in PATH is another one elsewhere.
    if !word.contains("/"), search.first?.hasPrefix("/") == true { return word }
    return NearPath.path(to: path, from: folder)
  }

  /// From the root. As it was written, with the links in it, where that needs no looking.
  private var path: String {
    let written = word.hasPrefix("./") ? String(word.dropFirst(2)) : word
    let parts = written.split(separator: "/")
    guard word.contains("/"), !parts.contains(".."), !parts.contains(".") else { return executable }
    return written.hasPrefix("/") ? written : workingDirectory + "/" + written
  }
}
