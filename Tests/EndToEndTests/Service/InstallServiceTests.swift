import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing
import orchestrator

@Suite("The verb 'install-service'", .timed)
struct InstallServiceTests {
  private static let ward = """
    topology: ward
    program: TestNodes
    nodes: { nurse: { machine: Button } }
    """

  /// Calls back with a tool whose `systemctl` writes its arguments to a file and ends with this code.
  private static func withSystemctl(
    code: Int = 0, _ body: (CommandLineTool) async throws -> Void
  ) async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    let path = tool.directory.path
    try tool.directory.write(ward, to: "ward.yaml")
    try tool.directory.write(
      "#!/bin/sh\necho \"$@\" >> '\(path)/calls'\necho 'no bus' >&2\nexit \(code)\n",
      to: "systemctl")
    try #require(chmod(path + "/systemctl", 0o755) == 0)
    tool.environment = ["PATH": path + ":/usr/bin:/bin", "XDG_CONFIG_HOME": path + "/config"]
    try await body(tool)
  }

  @Test("'install-service --user' writes the template and the instance, and enables the instance")
  func user() async throws {
    try await Self.withSystemctl { tool in
      let result = try await tool.run(
        "install-service", "--user", "--now", "--log-format", "json", "ward.yaml", code: 0)
      let units = tool.directory.path + "/config/systemd/user"
      #expect(result.output.contains("wrote \(units)/piperuntime@ward.service.d/topology.conf\n"))
      #expect(result.output.hasSuffix("piperuntime@ward.service: enabled and started\n"))
      #expect(
        FileSystem.text(of: tool.directory.path + "/calls") == """
          --user daemon-reload
          --user daemon-reload
          --user enable --now piperuntime@ward.service

          """)
      let dropIn = FileSystem.text(of: units + "/piperuntime@ward.service.d/topology.conf") ?? ""
      let command =
        "\(CommandLineTool.orchestrator) run --service --logs --log-format json --name ward"
      #expect(
        dropIn.contains("\nExecStart=\n") && dropIn.contains(command) && !dropIn.contains("User="),
        "\(dropIn)")
      // The template is written unless an installation of this host contains it.
      let template = units + "/piperuntime@.service"
      #expect(FileSystem.exists(template) == result.output.contains("wrote \(template)\n"))
    }
  }

  @Test("'install-service --dry-run' prints the files and commands, and changes nothing")
  func dryRun() async throws {
    try await Self.withSystemctl { tool in
      let result = try await tool.run(
        "install-service", "--as", "root", "--dry-run", "ward.yaml", code: 0)
      for text in [
        "# /etc/systemd/system/piperuntime@ward.service.d/topology.conf\n", "\nUser=root\n",
        "\nWorkingDirectory=\(tool.directory.path)\n",
        "/ward.yaml\nExecReload=\n", "\nsystemctl daemon-reload\n",
      ] { #expect(result.output.contains(text), "\(text): \(result)") }
      #expect(result.output.hasSuffix("\nsystemctl enable piperuntime@ward.service\n"))
      #expect(!FileSystem.exists(tool.directory.path + "/calls"))
      #expect(!FileSystem.exists("/etc/systemd/system/piperuntime@ward.service.d"))
    }
  }

  @Test("'install-service' says what is missing, and writes nothing")
  func errors() async throws {
    try await Self.withSystemctl(code: 1) { tool in
      for (arguments, code, message) in [
        ("", 2, "FILE is missing"), ("nofile.yaml", 2, "[unreadable-file]"),
        ("--user --as root ward.yaml", 2, "\(UsageError.conflict("--user", "--as"))"),
        ("--as nobody-has-this-name ward.yaml", 2, "no such user 'nobody-has-this-name'"),
        ("--user ward.yaml", 1, "'systemctl --user daemon-reload' failed: no bus"),
      ] as [(String, Int32, String)] {
        let program = try tool.start(
          ["install-service"] + arguments.split(separator: " ").map(String.init))
        let result = try await tool.end(of: program, code: code)
        #expect(result.error.contains(message) && result.output == "", "\(arguments): \(result)")
      }
      #expect(!FileSystem.exists(tool.directory.path + "/config"))
      var bare = tool
      bare.environment["PATH"] = "/nowhere"
      let result = try await bare.run("install-service", "--user", "ward.yaml", code: 1)
      #expect(result.error.contains("systemd is not installed: there is no 'systemctl' in PATH"))
    }
  }

  @Test(
    "A host without systemd is refused before anything is written",
    .enabled(
      if: !FileSystem.isDirectory("/run/systemd/system"), "systemd runs on this host"))
  func noSystemd() async throws {
    try await Self.withSystemctl { tool in
      let result = try await tool.run("install-service", "ward.yaml", code: 1)
      #expect(result.error.contains("systemd does not run on this host"), "\(result)")
      #expect(!FileSystem.exists(tool.directory.path + "/calls"))
    }
  }

  @Test("Paths in a unit are quoted, so that systemd reads them unchanged")
  func quoting() {
    let unit = ServiceUnit(program: "/opt/a b/orchestrator", isUserService: false)
    let text = unit.dropIn(
      ServiceUnit.Instance(
        topology: "shop", file: #"/srv/50% $off "x"/shop.yaml"#, deployment: "/srv/lab.yaml",
        user: "alice"))
    for line in [
      #"ExecStart="/opt/a b/orchestrator" run --service --logs --name shop --deployment /srv/lab.yaml "/srv/50%% $$off \"x\"/shop.yaml""#,
      #"WorkingDirectory=/srv/50%% $off "x""#, #"User=alice"#,
    ] {
      #expect(text.split(separator: "\n").contains { $0 == line }, "\(line) is not in:\n\(text)")
    }
  }

  @Test(
    "systemd-analyze accepts the template units",
    .enabled(
      if: FileSystem.exists("/usr/bin/systemd-analyze"),
      "Debian's 'systemd' is not installed: 'tools/setup systemd' does that"),
    arguments: [false, true])
  func verify(isUserService: Bool) async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    tool.environment["XDG_RUNTIME_DIR"] = tool.directory.path
    try tool.directory.write(
      ServiceUnit(program: "/bin/true", isUserService: isUserService).template,
      to: "piperuntime@.service")
    let analysis = try tool.start(
      program: "/usr/bin/systemd-analyze",
      ["verify", "--man=no", isUserService ? "--user" : "--system", "piperuntime@.service"])
    let result = try await tool.end(of: analysis)
    // Reports about other units of this host are ignored.
    #expect(!result.error.contains("piperuntime") && result.output == "", "\(result)")
  }
}
