import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The package of docs/GETTING-STARTED.md", .timed)
struct GettingStartedTests {
  @Test("The commands of docs/GETTING-STARTED.md write, build, run and test its package")
  func package() async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    let path = ProcessEnvironment.current["PATH"] ?? "/usr/bin:/bin"
    tool.environment["PATH"] = CommandLineTool.products + ":" + path
    let build = try KeptBuild(of: "crossing")
    var folder = build.place
    let commands = try Document(Document.gettingStarted).packageCommands
    #expect(commands.contains("swift test"))
    for command in commands {
      if command.hasPrefix("cd ") {
        folder += "/" + command.dropFirst(3)
        try build.restore()
      } else if command.hasPrefix("orchestrator run ") {
        try await run(command, in: folder, tool)
      } else {
        let program = try tool.start(program: "/bin/sh", ["-c", command], in: folder)
        let result = try await tool.result(of: program, within: .seconds(900))
        try #require(result.code == 0, "\(command): \(result)")
        if command == "swift test" { #expect(result.output.contains("1 test"), "\(result)") }
      }
    }
    let check = try await tool.run("check", folder + "/crossing.yaml", code: 0)
    #expect(check.error == "")
  }

  @Test(
    "(In a git work tree) A package can depend on PipeRuntime by version",
    .enabled(if: PackagePath.isWorkTree))
  func byVersion() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let place = PackagePath.root + "/.build/readme/by-version"
    try FileSystem.makeDirectories(place + "/Sources/light")
    FileSystem.removeTree(place + "/PipeRuntime")
    let (manifest, program) = Self.versioned(place)
    try FileSystem.replace(place + "/Package.swift", with: manifest.utf8)
    try FileSystem.replace(place + "/Sources/light/main.swift", with: program.utf8)
    let commands = [
      // SwiftPM caches the revision of a version, so each run tags a new version.
      "git clone --quiet \(PackagePath.root) PipeRuntime", "git -C PipeRuntime tag 1.2.$(date +%s)",
      "rm -f Package.resolved", "swift build", ".build/debug/light",
    ]
    for command in commands {
      let program = try tool.start(program: "/bin/sh", ["-c", command], in: place)
      let result = try await tool.result(of: program, within: .seconds(900))
      try #require(result.code == 0, "\(command): \(result)")
      if command == commands.last { #expect(result.output == "green\n") }
    }
  }

  /// Returns the smallest package with a machine.
  private static func versioned(_ place: String) -> (manifest: String, program: String) {
    (
      """
      // swift-tools-version: 6.2
      import PackageDescription

      let package = Package(
        name: "light",
        dependencies: [.package(url: "file://\(place)/PipeRuntime", from: "1.2.0")],
        targets: [
          .executableTarget(
            name: "light", dependencies: [.product(name: "PipeMachines", package: "PipeRuntime")])
        ]
      )

      """,
      """
      import PipeMachines

      enum Light: MachineState { case green }
      print(Light.green)

      """
    )
  }

  /// Runs a light until it turns green, then interrupts it as ^C does.
  private func run(_ command: String, in folder: String, _ tool: CommandLineTool) async throws {
    let program = try tool.start(program: "/bin/sh", ["-c", "exec " + command], in: folder)
    let isGreen = try await program.waitForOutput(containing: "green", within: .seconds(60))
    program.signal(.interrupt)
    let result = try await tool.result(of: program, within: .seconds(60))
    #expect(isGreen && result.code == 0, "\(command): \(result)")
  }
}

/// The directory of a package that is written again for each test run, and reuses the last build.
/// Only the first build takes long.
private struct KeptBuild {
  let place = PackagePath.root + "/.build/readme"
  private let package: String
  private var current: String { place + "/" + package + "/.build" }
  private var kept: String { place + "/build-of-" + package }

  /// Moves the build out of the package and removes the package.
  init(of package: String) throws {
    self.package = package
    try FileSystem.makeDirectories(place)
    if FileSystem.exists(current) {
      FileSystem.removeTree(kept)
      try #require(rename(current, kept) == 0, "\(kept): errno \(errno)")
    }
    FileSystem.removeTree(place + "/" + package)
  }

  /// Moves the build back into the package that has been written.
  func restore() throws {
    guard FileSystem.exists(kept) else { return }
    try #require(rename(kept, current) == 0, "\(kept): errno \(errno)")
  }
}
