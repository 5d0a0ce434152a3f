import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The script tools/bare-machine", .timed)
struct BareMachineTests {
  /// Returns a checkout with a built program and the sources that the tool inspects.
  private static func built() async throws -> CopiedTools {
    let checkout = try await CopiedTools()
    let path = ProcessEnvironment.current["PATH"] ?? ""
    try checkout.standIn("swift", "PATH='\(path)' exec swift \"$@\"")
    try await checkout.run(
      """
      mkdir -p .build/debug Sources Tests Benchmarks
      ln -s '\(CommandLineTool.products)/nodes' .build/debug/nodes
      cp '\(PackagePath.root)/debian-packages.txt' .
      cp -R '\(PackagePath.root)'/Sources/C* Sources/
      """)
    return checkout
  }

  @Test("'bare-machine' lists each dependency with its package and its users")
  func table() async throws {
    let checkout = try await Self.built()
    defer { checkout.remove() }
    let result = try await checkout.call("tools/bare-machine")
    #expect(result.code == 0 && result.error == "", "\(result)")
    let rows = result.output.split(separator: "\n").map {
      $0.split(separator: " ").map(String.init)
    }
    for row in [
      ["library", "libzmq.so.5", "libzmq5", "nodes"], ["header", "zmq.h", "libzmq3-dev", "CZMQ"],
      ["library", "libyaml.so", "libyaml-dev", "CYAML"],
      ["command", "id", "coreutils", "tools/preflight", "and", "1", "more"],
    ] {
      #expect(rows.contains(row), "\(row): \(result.output)")
    }
  }

  @Test("'bare-machine' fails with one sentence for each dependency without a listed package")
  func missing() async throws {
    let checkout = try await Self.built()
    defer { checkout.remove() }
    try checkout.write("libyaml-dev\nlibsqlite3-dev\n", to: "debian-packages.txt")
    // Removes a command that the tests require and that is in no essential package.
    try checkout.write("a:\n\t@true && echo $$(dot -V; setpriv | git log)\n", to: "Makefile")
    try await checkout.run("sed -i '/^git/d' tools/base-packages.txt")
    let result = try await checkout.call("tools/bare-machine")
    #expect(result.code == 1, "\(result)")
    let errors = result.error.split(separator: "\n").map(String.init)
    for (thing, user, package) in [
      ("library 'libzmq.so.5'", "nodes", "libzmq5"), ("header 'zmq.h'", "CZMQ", "libzmq3-dev"),
      ("library 'libzmq.so'", "CZMQ", "libzmq3-dev"),
      ("command 'git'", "Makefile and 1 more", "git"),
    ] {
      let error =
        "error: the \(thing), which \(user) uses, is of package '\(package)', and a new Debian 12 has "
        + "not got that; add it, or one that depends on it, to debian-packages.txt"
      #expect(errors.contains(error), "\(result)")
    }
    #expect(errors.filter { $0.contains("libzmq") }.count == 3, "\(result)")
    #expect(!errors.contains { $0.contains("yaml") }, "\(result)")
  }

  @Test("'bare-machine' reports a checkout without a build")
  func nothing() async throws {
    let checkout = try await Self.built()
    defer { checkout.remove() }
    try await checkout.run("rm -r .build")
    checkout.expect(
      try await checkout.call("tools/bare-machine"), says: ["nothing is built in", "'make test'"])
  }

  @Test("'bare-machine' finds the commands of a script and no other words")
  func words() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    try checkout.write(
      #"""
      # comment; no
      FOO=bar one "no | no $(two 'no; no') no" # no
      if ! three --no; then four | sudo five; else exec six; fi
      case $no in a) seven ;; esac
      awk 'no; no
      no' && (eight) || $(Q) "${no:-no}"
      long \
        no
      target: no
      	@nine $$(ten) $(NO)
      """# + "\n", to: "script")
    let result = try await checkout.call("awk", "-f", "tools/bare/shell-words.awk", "script")
    let names = result.output.split(separator: "\n").map(String.init)
    let numbers = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    #expect(Set(names).isSuperset(of: numbers + ["sudo", "awk", "long"]), "\(names)")
    // The name of a make variable may look like a command.
    #expect(!names.contains("no"), "\(names)")
  }

  @Test("'bare-machine' resolves package dependencies to the installed alternatives and providers")
  func packages() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    let fields = [
      ["root", "installed", "optional", "", "a (>= 1), b:any | c", "x | y, part"],
      ["a", "installed", "optional", "", "", "root"], ["c", "installed", "optional", "", "", ""],
      ["b", "config-files", "optional", "", "", ""], ["y", "installed", "optional", "", "", ""],
      ["other", "installed", "optional", "part (= 2)", "", ""],
      ["player", "installed", "required", "part", "", ""],
      ["stranger", "installed", "optional", "", "", ""],
    ]
    let lines = fields.map { ($0.prefix(4) + ["\($0[4]),\($0[5])"]).joined(separator: "\t") + "\n" }
    try checkout.write(lines.joined(), to: "installed")
    try checkout.write("root\nabsent\n", to: "roots")
    let result = try await checkout.call(
      "awk", "-F", "\t", "-f", "tools/bare/packages.awk", "installed", "roots")
    #expect(
      Set(result.output.split(separator: "\n")) == ["root", "a", "c", "y", "player"], "\(result)")
  }
}
