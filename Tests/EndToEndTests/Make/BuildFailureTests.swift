import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("A build by make", .timed)
struct BuildFailureTests {
  /// The output of a failing compiler, and the expected explanation.
  struct Failure: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var output: String
    var says: [String]
    var free = 50_000
  }

  static let failures = [
    Failure(
      testDescription: "the disk is full",
      output: "LLVM ERROR: IO failure on output stream: No space left on device",
      says: ["the disk of '", "/checkout/.build' is full: 7 MB are free", "free some space"],
      free: 7),
    Failure(
      testDescription: "the disk was full",
      output: "error: unable to write file: no space left on device",
      says: ["a disk was full while this was built, and has space again; try again"]),
    Failure(
      testDescription: "the disk is too full for the build database",
      output: "error: accessing build database: database or disk is full",
      says: ["/checkout/.build' is full: 0 MB are free"], free: 0),
    Failure(
      testDescription: "a module was built by an older compiler",
      output: "<unknown>:0: error: module compiled with Swift 6.2 cannot be imported by the Swift "
        + "6.3.1 compiler: /a/b.swiftmodule",
      says: ["modules of another compiler than 'swift'", "'make clean'"]),
    Failure(
      testDescription: "a module was built by another build of the compiler",
      output: "a.swift:1:8: error: compiled module was created by a different version of the "
        + "compiler 'x'; rebuild 'PipeRuntime' and try again: /a/b.swiftmodule",
      says: ["modules of another compiler than 'swift'", "'make clean'"]),
    Failure(
      testDescription: "the C library's files are missing",
      output: "ld.lld: error: cannot open Scrt1.o: No such file or directory",
      says: ["the C library's own files for development are missing", "tools/base-packages.txt"]),
  ]

  @Test(
    "A build that fails for a reason outside the sources ends with a message about the reason",
    arguments: failures)
  func failure(_ failure: Failure) async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    try checkout.write(failure.output + "\n", to: "output")
    try checkout.standIn("swift", "cat output; exit 7")
    try checkout.standIn("df", CopiedTools.disk(free: failure.free))
    let result = try await checkout.call("tools/build", "--product", "nodes")
    #expect(result.output.hasSuffix(failure.output + "\n"), "\(result)")
    checkout.expect(result, says: failure.says)
  }

  @Test(
    "A build that fails because of stale objects compiles the objects again, once",
    arguments: [true, false])
  func stale(_ isCured: Bool) async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    let (stale, sound) = (
      ".build/release/Nodes.build/A.swift.o", ".build/release/Other.build/B.swift.o"
    )
    for object in [stale, sound] {
      try await checkout.run(
        "mkdir -p \(object.prefix { $0 != "A" && $0 != "B" }) && touch \(object)")
    }
    try checkout.standIn(
      "swift",
      """
      echo called >> calls
      \(isCured ? "[ -e \(stale) ] || { echo linked; exit 0; }" : "")
      echo 'ld.lld: error: undefined symbol: $s11PipeSupport5QueueV6appendyyxF'
      echo '>>> referenced by <compiler-generated>:0 (/<compiler-generated>:0)'
      echo ">>>               $PWD/\(stale):(\\$s5Nodes1AV)"
      echo ">>> defined in: $PWD/\(sound)"
      exit 1
      """)
    let result = try await checkout.call("tools/build", "-c", "release")
    #expect(result.code == (isCured ? 0 : 1), "\(result)")
    #expect(result.output.contains("objects of an earlier build do not fit"), "\(result)")
    try await checkout.run("! [ -e \(stale) ] && [ -e \(sound) ] && [ $(wc -l < calls) = 2 ]")
  }

  @Test("A build that fails because of the sources shows the compiler's message and no more")
  func sources() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    try checkout.standIn("swift", "echo \"a.swift:1:1: error: cannot find 'x'\"; exit 7")
    let result = try await checkout.call("tools/build")
    #expect(result.code == 7 && result.error == "", "\(result)")
    #expect(result.output.hasSuffix("\na.swift:1:1: error: cannot find 'x'\n"), "\(result)")
  }

  @Test(
    "The first build says what it builds and how long that takes, and later builds do not")
  func first() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    try checkout.standIn("swift", "printf '<%s>' \"$@\"")
    for (arguments, built) in [
      (["--product", "nodes"], "debug/Modules/PipeRuntime.swiftmodule"),
      (["-c", "release", "--product", "nodes"], "release/Modules/PipeRuntime.swiftmodule"),
      (["--product", "PipeRuntimePackageTests"], "debug/PipeRuntimePackageTests.xctest"),
    ] {
      func build() async throws -> [Substring] {
        let result = try await checkout.call(["tools/build"] + arguments)
        #expect(result.code == 0 && result.error == "", "\(result)")
        return result.output.split(separator: "\n")
      }
      let words = (["build"] + arguments).map { "<\($0)>" }.joined()
      let first = try await build()
      #expect(first.count == 2 && String(first[1]) == words, "\(first)")
      #expect(
        first[0].hasPrefix("building the ") && first[0].contains("(the first time takes "),
        "\(first)")
      try await checkout.run("mkdir -p .build/\(built)")
      #expect(try await build().map(String.init) == [words])
    }
  }
}
