import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The checks of make before a build", .timed)
struct PreflightTests {
  /// A compiler and the expected error.
  struct Compiler: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var script: String
    var says: [String]
  }

  static let compilers = [
    Compiler(
      testDescription: "a compiler that is too old",
      script: "echo 'Swift version 6.2.4 (swift-6.2.4-RELEASE)'",
      says: ["'swift' is version 6.2, and 6.3 or newer is needed", "www.swift.org/install"]),
    Compiler(
      testDescription: "a compiler that is much too old",
      script: "echo 'Swift version 5.10 (swift-5.10-RELEASE)'",
      says: ["'swift' is version 5.10, and 6.3 or newer is needed"]),
    Compiler(
      testDescription: "a compiler without its libraries",
      script: "echo 'swift: error while loading shared libraries: libncurses.so.6' >&2; exit 127",
      says: ["'swift' does not run", "libncurses.so.6", "install the packages"]),
    Compiler(
      testDescription: "a program that is not a compiler", script: "echo 'The Swift object store'",
      says: ["'swift --version' tells no version of Swift", "make SWIFT="]),
  ]

  @Test("'make setup' rejects an unusable compiler and says where to get one", arguments: compilers)
  func compiler(_ compiler: Compiler) async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    try checkout.standIn("swift", compiler.script)
    checkout.expect(try await checkout.call("make", "setup"), says: compiler.says)
  }

  @Test("'make setup' reports a missing compiler and says where to get one")
  func noCompiler() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    checkout.expect(
      try await checkout.call("make", "setup", "SWIFT=swift-that-is-missing"),
      says: ["there is no 'swift-that-is-missing' on the PATH", "www.swift.org/install"])
  }

  @Test("'make setup' prints nothing when all is well, even with a newer compiler")
  func well() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    for version in ["6.3", "6.10.1", "7.0"] {
      try checkout.standIn("swift", "echo 'Swift version \(version) (of tomorrow)'")
      try await checkout.run("rm -rf .build")
      for _ in 1...2 {
        let result = try await checkout.call("make", "setup")
        #expect(result.code == 0 && result.output == "" && result.error == "", "\(result)")
      }
    }
  }

  @Test(
    "'make setup' reports a folder that cannot be written to",
    .enabled(
      if: geteuid() != 0 || FileSystem.exists("/usr/bin/setpriv"),
      "root may write everywhere, and there is no setpriv to be somebody else"))
  func lockedFolder() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    chmod(checkout.path, 0o555)
    defer { chmod(checkout.path, 0o755) }
    checkout.expect(
      try await checkout.call("make", "setup", asNobody: true),
      says: [
        "'\(checkout.path)' cannot be written to by user '", "copy it to a folder of your own",
      ])
  }

  @Test(
    "'make setup' reports a build directory of another user",
    .enabled(
      if: geteuid() != 0 || FileSystem.exists("/usr/bin/setpriv"),
      "root may write everywhere, and there is no setpriv to be somebody else"))
  func lockedBuild() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    try await checkout.run("mkdir -p .build/debug && chmod 777 .build && chmod 555 .build/debug")
    checkout.expect(
      try await checkout.call("make", "setup", asNobody: true),
      says: ["'\(checkout.path)/.build/debug', where make builds, cannot be written to", "remove"])
  }

  @Test("'make setup' reports a file in place of the build directory")
  func file() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    try checkout.write("", to: ".build")
    checkout.expect(
      try await checkout.call("make", "setup"),
      says: ["/.build'", "cannot be written to", "remove"])
  }

  @Test("'make setup' reports a build by another compiler, and 'make clean' removes the build")
  func otherCompiler() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    #expect(try await checkout.call("make", "setup").code == 0)
    try checkout.standIn("swift", "echo 'Swift version 6.4 (swift-6.4-RELEASE)'")
    for _ in 1...2 {
      checkout.expect(
        try await checkout.call("make", "setup"),
        says: [
          "'\(checkout.path)/.build' was built by \(CopiedTools.version), and 'swift' is Swift version 6.4",
          "'make clean' removes it",
        ])
    }
    #expect(try await checkout.call("make", "clean").code == 0)
    let result = try await checkout.call("make", "setup")
    #expect(result.code == 0, "\(result)")
  }

  @Test("'make setup' reports a nearly full disk, and requires less space for a rebuild")
  func disk() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    try checkout.standIn("df", CopiedTools.disk(free: 300))
    checkout.expect(
      try await checkout.call("make", "setup"),
      says: ["300 MB are free on the disk of '\(checkout.path)'", "needs about", "free some space"])
    try await checkout.run("mkdir -p .build/debug")
    #expect(try await checkout.call("make", "setup").code == 0)
    try checkout.standIn("df", CopiedTools.disk(free: 3))
    checkout.expect(try await checkout.call("make", "setup"), says: ["3 MB are free"])
  }
}
