import PipeRuntime

/// Programs of other packages, which a test needs.
enum InstalledProgram {
  /// The path of the first of these that is installed.
  static func path(of programs: [String]) -> String? {
    let folders = (ProcessEnvironment.current["PATH"] ?? "").split(separator: ":")
    return programs.lazy.flatMap { program in folders.map { "\($0)/\(program)" } }
      .first { FileSystem.exists($0) }
  }

  /// It comes with the Swift toolchain.
  static let compiler = path(of: ["cc", "clang"])
}
