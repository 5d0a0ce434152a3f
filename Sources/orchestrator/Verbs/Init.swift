import Glibc
import PipeRuntime

/// The verb `orchestrator init`.
struct Init: Verb {
  let description = VerbDescription(
    "init", "Writes a package with a machine, its program, a topology and a test",
    discussion:
      "The package contains a traffic light as an example. The package depends on PipeRuntime, "
      + "by the path of the checkout in which this orchestrator was built. The command writes "
      + "either all files or none, and changes no existing files.",
    options: [
      Option(
        "directory", value: .directory,
        "The directory in which to create the package. Default: the current directory"),
      Option(
        "piperuntime", value: .directory,
        "The checkout of PipeRuntime. Default: the checkout in which this orchestrator was built"),
    ],
    positionals: [
      Positional(
        "NAME", .text("NAME"), .one, "The name, used for the package, its program and its topology")
    ],
    examples: [
      ("orchestrator init crossing", "Writes the package 'crossing' to a directory of that name"),
      (
        "orchestrator init crossing --directory ~/work --piperuntime ~/PipeRuntime",
        "Writes the package to another directory, and names the checkout that it depends on"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    do {
      let written = try write(arguments)
      for file in written.files { try console.print(written.displayPath + "/" + file.path) }
      try console.flush()
      for line in written.nextSteps.lines { console.note(line) }
    } catch let error as InitError {
      throw CommandError(error.description, code: error.code)
    }
    return .success
  }

  private struct WrittenPackage {
    var files: [PackageFile]
    /// The folder of the package, as a user would type it.
    var displayPath: String
    var nextSteps: NextSteps
  }

  private func write(_ arguments: ParsedArguments) throws(InitError) -> WrittenPackage {
    let name = try PackageName(arguments.positionals[0])
    let executable = OwnProcess.executablePath ?? FileSystem.absolutePath(CommandLine.arguments[0])
    let checkout: Checkout
    if let path = arguments.value("piperuntime") {
      checkout = try .named(path)
    } else {
      checkout = try .above(executable)
    }
    try name.check(against: checkout)
    let directoryOption = arguments.value("directory")
    guard let parent = FileSystem.resolvedPath(directoryOption ?? "."),
      FileSystem.isDirectory(parent)
    else {
      throw .noDirectory(directoryOption ?? ".")
    }
    let folder = (parent == "/" ? "" : parent) + "/" + name.text
    let template = PackageTemplate(
      name: name, dependency: RelativePath.path(to: checkout.path, from: folder))
    try PackageFolder(path: folder).write(template.files)
    let displayPath = directoryOption.map { $0.hasSuffix("/") ? $0 : $0 + "/" } ?? ""
    return WrittenPackage(
      files: template.files, displayPath: displayPath + name.text,
      nextSteps: NextSteps(
        folder: displayPath + name.text, topology: template.topologyPath,
        orchestrator: invocation(executable).commandText(from: folder, searchPath: searchPath())))
  }

  private func invocation(_ executable: String) -> OrchestratorInvocation {
    OrchestratorInvocation(
      commandName: CommandLine.arguments[0], executable: executable,
      workingDirectory: FileSystem.resolvedPath(".") ?? "/")
  }

  /// Returns the folders in `PATH` in which a shell finds the orchestrator.
  private func searchPath() -> [String] {
    let folders = ProcessEnvironment.current["PATH"]?.split(separator: ":").map(String.init) ?? []
    return folders.filter { access($0 + "/" + CommandLine.arguments[0], X_OK) == 0 }
  }
}

/// The commands that the user should run next in a new package.
package struct NextSteps: Hashable, Sendable {
  /// The package's folder, as a user would type it.
  package var folder: String
  /// The name of the topology file in this folder.
  package var topology: String
  /// The command that runs this orchestrator in this folder.
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
      "  swift build  # the first build also compiles PipeRuntime",
      "  \(Self.word(orchestrator)) run \(topology)",
      "  swift test",
    ]
  }

  /// Quotes a word for a shell, if this is necessary.
  private static func word(_ text: String) -> String {
    let isPlain = text.utf8.allSatisfy { byte in
      isSafeName("_" + String(UnicodeScalar(byte))) || byte == UInt8(ascii: "/")
    }
    return isPlain ? text : "'" + text.replacing("'", with: "'\\''") + "'"
  }
}

/// The command, the executable and the working directory with which this orchestrator was started.
/// They determine how a user can start the orchestrator in other folders.
package struct OrchestratorInvocation: Hashable, Sendable {
  /// The first word of the command line.
  package var commandName: String
  /// The path of the executable, with symbolic links resolved.
  package var executable: String
  package var workingDirectory: String

  package init(commandName: String, executable: String, workingDirectory: String) {
    self.commandName = commandName
    self.executable = executable
    self.workingDirectory = workingDirectory
  }

  /// Returns a command that runs this orchestrator: its name if a shell finds the name in `PATH`,
  /// or else its path.
  /// - Parameters:
  ///   - folder: The folder in which the command will be run.
  ///   - searchPath: The folders in `PATH` that contain an executable with this name.
  package func commandText(from folder: String, searchPath: [String]) -> String {
    // A relative folder in PATH is not sufficient, since its meaning depends on the working
    // directory.
    if !commandName.contains("/"), searchPath.first?.hasPrefix("/") == true { return commandName }
    return RelativePath.path(to: path, from: folder)
  }

  /// The absolute path of the orchestrator. It contains the symbolic links that the user has typed.
  /// If the typed path contains `.` or `..`, the links are resolved.
  private var path: String {
    let written = commandName.hasPrefix("./") ? String(commandName.dropFirst(2)) : commandName
    let parts = written.split(separator: "/")
    guard commandName.contains("/"), !parts.contains(".."), !parts.contains(".") else {
      return executable
    }
    return written.hasPrefix("/") ? written : workingDirectory + "/" + written
  }
}
