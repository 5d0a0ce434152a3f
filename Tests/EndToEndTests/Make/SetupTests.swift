import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The target 'make setup'", .timed)
struct SetupTests {
  /// A failure of `apt-get`, and the expected explanation.
  struct Failure: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// The script that runs instead of `apt-get update`. `install` has the script for `apt-get
    /// install`.
    var update: String
    var install: String
    var says: [String]
  }

  static let failures = [
    Failure(
      testDescription: "there is no network",
      update: "echo \"W: Failed to fetch http://a/b  Temporary failure resolving 'a'\" >&2",
      install: "echo 'E: Unable to locate package no-such-library-dev' >&2; exit 100",
      says: ["package servers are out of reach", "connect to the network"]),
    Failure(
      testDescription: "the network connection is lost", update: ":",
      install: "echo 'E: Failed to fetch http://a/b.deb  Could not connect to a:80' >&2; exit 100",
      says: ["package servers are out of reach", "connect to the network"]),
    Failure(
      testDescription: "another apt-get is running", update: ":",
      install:
        "echo 'E: Could not get lock /var/lib/dpkg/lock. It is held by process 7' >&2; exit 100",
      says: ["It is held by process 7", "'apt-get install no-such-library-dev' shows all of it"]),
  ]

  @Test("'make setup' says in one sentence why a package cannot be installed", arguments: failures)
  func failure(_ failure: Failure) async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    try checkout.write("dpkg\nno-such-library-dev\n", to: "debian-packages.txt")
    try checkout.standIn("sudo", "exec \"$@\"")
    try checkout.standIn(
      "apt-get",
      "case \" $* \" in *' update '*) \(failure.update);; *) \(failure.install);; esac")
    let result = try await checkout.call("make", "setup")
    checkout.expect(result, says: ["cannot install no-such-library-dev: "] + failure.says)
    #expect(result.output == "installing no-such-library-dev\n")
  }

  @Test("'make setup' installs missing packages, and does not call apt-get if none is missing")
  func missing() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    try checkout.standIn("sudo", "exec \"$@\"")
    try checkout.standIn("apt-get", "echo \"$@\" >> '\(checkout.path)/calls'")
    #expect(try await checkout.call("make", "setup").code == 0)
    #expect(!FileSystem.exists(checkout.path + "/calls"))
    try checkout.write("dpkg\nno-such-library-dev\nno-such-tool\n", to: "debian-packages.txt")
    let result = try await checkout.call("make", "setup")
    #expect(result.code == 0 && result.error == "", "\(result)")
    #expect(result.output == "installing no-such-library-dev no-such-tool\n")
    let calls = try await checkout.call("cat", "calls").output.split(separator: "\n")
    #expect(calls.count == 2, "\(calls)")
    #expect(calls.last?.hasSuffix(" no-such-library-dev no-such-tool") == true, "\(calls)")
  }

  @Test("'tools/setup' installs the named packages and does not start their services")
  func named() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    let policy = checkout.path + "/policy-rc.d"
    try checkout.standIn("sudo", "exec \"$@\"")
    try checkout.standIn(
      "apt-get", "{ echo \"$@\"; \(policy) prometheus start; echo $?; } >> '\(checkout.path)/calls'"
    )
    try checkout.write("no-such-library-dev\n", to: "debian-packages.txt")
    let result = try await checkout.call(
      "/usr/bin/env", "POLICY_RC_D=\(policy)", "tools/setup", "dpkg", "no-such-server")
    #expect(result.code == 0 && result.error == "", "\(result)")
    #expect(result.output == "installing no-such-server\n")
    let calls = try await checkout.call("cat", "calls").output.split(separator: "\n")
    #expect(calls.count == 4 && calls[2].hasSuffix(" no-such-server"), "\(calls)")
    // The policy's exit code 101 forbids a service to start.
    #expect(calls[1] == "101" && calls[3] == "101", "\(calls)")
    #expect(!FileSystem.exists(policy))
    // An existing policy belongs to the system: it is kept and used.
    try checkout.write("#!/bin/sh\nexit 104\n", to: "policy-rc.d")
    try await checkout.run("chmod 755 policy-rc.d && rm calls")
    #expect(
      try await checkout.call(
        "/usr/bin/env", "POLICY_RC_D=\(policy)", "tools/setup", "no-such-server"
      ).code == 0)
    #expect(try await checkout.call("cat", "calls").output.hasSuffix("\n104\n"))
    #expect(FileSystem.exists(policy))
  }

  @Test(
    "'make setup' without root privileges says that only root can install packages",
    .enabled(
      if: !FileSystem.exists("/usr/bin/sudo")
        && (geteuid() != 0 || FileSystem.exists("/usr/bin/setpriv")),
      "there is a sudo, or no setpriv to be somebody else than root"))
  func nobody() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    try checkout.write("no-such-library-dev\n", to: "debian-packages.txt")
    try await checkout.run("mkdir .build && chmod 777 .build")
    checkout.expect(
      try await checkout.call("make", "setup", asNobody: true),
      says: ["only root can", "'apt-get install no-such-library-dev' as root"])
  }

  @Test("'make setup' on a system other than Debian says what to do")
  func noDebian() async throws {
    let checkout = try await CopiedTools()
    defer { checkout.remove() }
    // A PATH without dpkg-query.
    try await checkout.run(
      "for name in bash sh dirname; do ln -s \"$(command -v $name)\" ../programs/; done")
    let programs = FileSystem.parentDirectory(of: checkout.path) + "/programs"
    checkout.expect(
      try await checkout.call("/usr/bin/env", "PATH=\(programs)", "tools/setup"),
      says: ["this is no Debian", "debian-packages.txt", "'swift build'"])
  }
}
