import PipeRuntime

/// Programs of other packages that tests require.
enum InstalledProgram {
  /// Returns the path of the first of these programs that is installed.
  static func path(of programs: [String]) -> String? {
    let folders = (ProcessEnvironment.current["PATH"] ?? "").split(separator: ":")
    return programs.lazy.flatMap { program in folders.map { "\($0)/\(program)" } }
      .first { FileSystem.exists($0) }
  }

  /// The C compiler, which comes with the Swift toolchain.
  static let compiler = path(of: ["cc", "clang"])
}
