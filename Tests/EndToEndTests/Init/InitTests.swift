import Glibc
import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("The verb 'init'", .timed, .blocking)
struct InitTests {
  private static let paths = [
    ".gitignore", "Makefile", "Package.swift", "Sources/crossing/Program.swift",
    "Sources/crossing/TrafficLight.swift", "Tests/crossingTests/TrafficLightTests.swift",
    "crossing.yaml",
  ]

  /// Returns a command in a folder with a minimal checkout of PipeRuntime.
  private static func command() throws -> Command {
    let command = try Command()
    let made = try command.run(
      shell: "mkdir PipeRuntime && cp '\(PackagePath.root)/Package.swift' PipeRuntime")
    try #require(made.exit == .exited(code: 0), "\(made)")
    return command
  }

  private func text(of path: String) throws -> String {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    try #require(descriptor >= 0, "\(path): errno \(errno)")
    defer { close(descriptor) }
    return String(decoding: try FileSystem.read(descriptor), as: UTF8.self)
  }

  @Test("'init' writes a package beside the checkout, lists its files, and shows the next steps")
  func writes() throws {
    let command = try Self.command()
    defer { command.remove() }
    let result = try command.run(shell: "orchestrator init crossing --piperuntime PipeRuntime")
    #expect(result.exit == .exited(code: 0))
    #expect(result.output == Self.paths.map { "crossing/\($0)\n" }.joined())
    #expect(
      result.error == """
        Next:
          cd crossing
          swift build  # the first build also compiles PipeRuntime
          orchestrator run crossing.yaml
          swift test

        """)
    let template = PackageTemplate(
      name: try PackageName("crossing"), dependency: "../PipeRuntime")
    for file in template.files {
      #expect(try text(of: command.root + "/crossing/" + file.path) == file.text)
    }
    #expect(template.files.map(\.path) == Self.paths)
    #expect(FileSystem.entryNames(of: command.root) == ["PipeRuntime", "crossing"])
  }

  @Test("The generated Makefile builds a release with the settings of PipeRuntime's own Makefile")
  func releaseSettings() throws {
    let own = try text(of: PackagePath.root + "/Makefile")
    for flags in PackageTemplate.releaseFlags { #expect(own.contains(flags), "\(flags)") }
    let template = PackageTemplate(name: try PackageName("crossing"), dependency: "../PipeRuntime")
    let makefile = try #require(template.files.first { $0.path == "Makefile" }).text
    let command = try Command()
    defer { command.remove() }
    try FileSystem.replace(command.root + "/Makefile", with: Array(makefile.utf8))
    let result = try command.run(shell: "make -n release")
    #expect(result.exit == .exited(code: 0), "\(result)")
    let lines = result.output.split(separator: "\n")
    #expect(lines.last?.hasSuffix(" --product orchestrator") == true)
    #expect(result.output.contains(" --product crossing\n"))
    #expect(!result.output.contains("symbol-ordering"))
    try FileSystem.makeDirectories(command.root + "/tree/tools")
    try FileSystem.replace(command.root + "/tree/tools/start.order", with: [])
    let ordered = PackageTemplate(name: try PackageName("crossing"), dependency: "tree")
    let other = try #require(ordered.files.first { $0.path == "Makefile" }).text
    try FileSystem.replace(command.root + "/Makefile", with: Array(other.utf8))
    let with = try command.run(shell: "make -n release").output
    #expect(with.contains("--symbol-ordering-file=tree/tools/start.order"), "\(with)")
  }

  @Test("'init --directory DIR' writes the package to DIR, and the package depends on the checkout")
  func elsewhere() throws {
    let command = try Command()
    defer { command.remove() }
    // An empty folder is treated like a missing one.
    let result = try command.run(
      shell: "mkdir -p 'a b/crossing' && orchestrator init --directory='a b' crossing")
    #expect(result.exit == .exited(code: 0), "\(result)")
    #expect(result.output.hasPrefix("a b/crossing/.gitignore\n"))
    #expect(result.error.contains("\n  cd 'a b/crossing'\n"))
    let folder = command.root + "/a b/crossing"
    let manifest = try text(of: folder + "/Package.swift")
    let path = try #require(
      manifest.split(separator: "path: \"").last?.prefix { $0 != "\"" }.description)
    let dependency = path.hasPrefix("/") ? path : folder + "/" + path
    #expect(FileSystem.resolvedPath(dependency) == FileSystem.resolvedPath(PackagePath.root))
  }

  @Test(
    "'init' refuses invalid arguments with one sentence and writes nothing",
    arguments: [
      ("init", 2, "NAME is missing\nTry 'orchestrator init --help'."),
      (
        "init 'a b'", 2,
        "invalid package name 'a b': use letters, digits, '-' and '_', and begin with a letter"
      ),
      (
        "init piperuntime", 2,
        "invalid package name 'piperuntime': PipeRuntime, or one of its products or targets, has "
          + "this name; choose another name"
      ),
      (
        "init crossing --directory no", 2,
        "'no' is not a directory; create it first, or name another directory with --directory"
      ),
      (
        "init crossing --directory file", 2,
        "'file' is not a directory; create it first, or name another directory with --directory"
      ),
      (
        "init crossing --piperuntime no", 2,
        "no readable Package.swift in 'no'; name the directory of PipeRuntime with "
          + "--piperuntime"
      ),
      (
        "init crossing --piperuntime other", 2,
        "'other' contains package 'another' instead of PipeRuntime; name the directory of "
          + "PipeRuntime with --piperuntime"
      ),
      (
        "init full", 1,
        "'ROOT/full' already exists and is not empty; choose another name, or another directory "
          + "with --directory"
      ),
      (
        "init file", 1,
        "'ROOT/file' already exists and is not a directory; choose another name, or another directory "
          + "with --directory"
      ),
      (
        "init link", 1,
        "'ROOT/link' already exists and is not a directory; choose another name, or another directory "
          + "with --directory"
      ),
    ] as [(String, Int32, String)])
  func refusals(arguments: String, code: Int32, message: String) throws {
    let command = try Command()
    defer { command.remove() }
    let prepare = """
      mkdir full other; echo mine > full/mine; echo mine > file; ln -s full/none link
      echo 'let package = Package(name: "another")' > other/Package.swift
      """
    #expect(try command.run(shell: prepare).exit == .exited(code: 0))
    let result = try command.run(shell: "orchestrator " + arguments)
    #expect(result.exit == .exited(code: code))
    #expect(result.output == "")
    #expect(
      result.error
        == "orchestrator: error: \(message.replacing("ROOT", with: command.root))\n")
    #expect(FileSystem.entryNames(of: command.root) == ["file", "full", "link", "other"])
    #expect(FileSystem.entryNames(of: command.root + "/full") == ["mine"])
    #expect(try text(of: command.root + "/file") == "mine\n")
  }

  @Test("'init' leaves no files behind if a write fails halfway")
  func halfWritten() throws {
    let command = try Self.command()
    defer { command.remove() }
    // The third file exceeds the file size limit, which fails like a full disk.
    let result = try command.run(
      shell: "trap '' XFSZ; ulimit -f 1; orchestrator init crossing --piperuntime PipeRuntime")
    #expect(result.exit == .exited(code: 1))
    #expect(result.output == "")
    #expect(
      result.error
        == "orchestrator: error: nothing was written: cannot create '\(command.root)/crossing' "
        + "(write: File too large); correct the cause, or choose another directory with "
        + "--directory\n")
    #expect(FileSystem.entryNames(of: command.root) == ["PipeRuntime"])
  }

  @Test("'init' reports the directory that it cannot write to")
  func unwritable() throws {
    let command = try Self.command()
    defer { command.remove() }
    let result = try command.run(
      shell: "orchestrator init crossing --piperuntime PipeRuntime --directory /proc")
    #expect(result.exit == .exited(code: 1))
    #expect(
      result.error.hasPrefix(
        "orchestrator: error: nothing was written: cannot create '/proc/crossing' (mkdir: "),
      "\(result)")
  }

  @Test("Of several concurrent calls of 'init', exactly one writes the whole package")
  func race() throws {
    let command = try Self.command()
    defer { command.remove() }
    let result = try command.run(
      shell: """
        for i in 1 2 3 4; do
          orchestrator init crossing --piperuntime PipeRuntime 2> errors.$i & pids="$pids $!"
        done
        for pid in $pids; do wait $pid; echo "code $?"; done
        find crossing -type f | wc -l
        """)
    let lines = result.output.split(separator: "\n").map(String.init)
    #expect(lines.filter { $0 == "code 0" }.count == 1, "\(result)")
    #expect(lines.filter { $0 == "code 1" }.count == 3, "\(result)")
    #expect(lines.filter { $0 == "crossing/crossing.yaml" }.count == 1, "\(result)")
    #expect(lines.last == "\(Self.paths.count)")
    #expect(!FileSystem.entryNames(of: command.root).contains { $0.hasPrefix(".") })
  }

  @Test("An orchestrator outside of a checkout of PipeRuntime asks for the option '--piperuntime'")
  func noCheckout() throws {
    let command = try Self.command()
    defer { command.remove() }
    let own = "cp '\(Command.path)' orchestrator && ./orchestrator init crossing"
    let refused = try command.run(shell: own)
    #expect(refused.exit == .exited(code: 1))
    #expect(
      refused.error == "orchestrator: error: no checkout of PipeRuntime found above "
        + "'\(command.root)/orchestrator'; name its directory with --piperuntime DIRECTORY\n"
    )
    let explicitResult = try command.run(shell: own + " --piperuntime PipeRuntime")
    #expect(explicitResult.exit == .exited(code: 0), "\(explicitResult)")
    #expect(explicitResult.error.contains("\n  ../orchestrator run crossing.yaml\n"))
  }
}
