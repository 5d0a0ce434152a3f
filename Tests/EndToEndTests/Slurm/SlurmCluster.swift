import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

extension Trait where Self == ConditionTrait {
  /// Skips the test, with the reason, where hosts and a Slurm cannot be created for lack of
  /// permissions or programs.
  static var needsSlurm: Self {
    .enabled(
      if: SlurmCluster.isAvailable,
      "needs root, cgroups of version 1, and Debian's 'slurm-wlm', 'munge' and 'iproute2': 'tools/setup slurm-wlm munge iproute2'"
    )
  }
}

/// A Slurm job on three hosts `fh1` to `fh3`, which are namespaces of this machine and belong to
/// one test. Topologies are started on a fourth host, at 10.77.0.10.
struct SlurmCluster {
  static var isAvailable: Bool {
    geteuid() == 0 && FileSystem.exists("/sys/fs/cgroup/freezer")
      && ["/usr/sbin/slurmctld", "/usr/sbin/munged", "/usr/bin/srun", "/usr/sbin/ip"].allSatisfy(
        FileSystem.exists)
  }

  private static let script =
    FileSystem.parentDirectory(of: #filePath) + "/cluster.sh"

  private let tool: CommandLineTool
  private let directory: String
  private let prefix: String

  /// Runs a topology on the hosts, and ends the topology and the hosts.
  static func with(
    _ yaml: String, deployment: String,
    _ body: (DetachedTopology, SlurmCluster) async throws -> Void
  ) async throws {
    try await with { tool, cluster in
      var topology = try DetachedTopology(tool: tool, name: "ward", yaml: yaml)
      try topology.deploy(by: deployment)
      try await topology.up()
      try await body(topology, cluster)
      try await topology.run("down")
    }
  }

  /// Calls back with a tool that runs verbs within the job, and then ends all processes on the
  /// hosts.
  static func with(
    _ body: (CommandLineTool, SlurmCluster) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      let cluster = try SlurmCluster(tool)
      do {
        let job = try await cluster.call("up")
        var inside = tool
        inside.prefix = ["/usr/sbin/ip", "netns", "exec", cluster.prefix + "fh0"]
        inside.environment["SLURM_CONF"] = cluster.directory + "/slurm.conf"
        inside.environment["SLURM_JOB_ID"] = job
        try await body(inside, cluster)
      } catch {
        try await cluster.call("down")
        throw error
      }
      try await cluster.call("down")
    }
  }

  private init(_ tool: CommandLineTool) throws {
    self.tool = tool
    directory = tool.directory.path + "/slurm"
    prefix = "s" + tool.directory.path.split(separator: "-").suffix(1).joined().prefix(6)
    try FileSystem.makeDirectories(directory)
  }

  /// Makes a host lose its power.
  func cutPower(_ host: Int) async throws { try await call("lose", host) }

  /// Starts a host again.
  func start(_ host: Int) async throws { try await call("start", host) }

  /// Cuts a host off the network.
  func partition(_ host: Int) async throws { try await call("partition", host) }

  func heal(_ host: Int) async throws { try await call("heal", host) }

  /// Kills Slurm's daemon on a host, and no other process. Host 0 has Slurm's controller.
  func killDaemon(of host: Int) async throws { try await call("end", host) }

  func restartDaemon(of host: Int) async throws { try await call("restart", host) }

  /// Runs one of Slurm's programs where the verbs run.
  func run(_ arguments: String..., by tool: CommandLineTool) async throws -> CommandLineTool.Result
  {
    let line = tool.prefix + arguments
    let started = try tool.start(program: line[0], Array(line.dropFirst()))
    return try await tool.result(of: started, within: .seconds(30))
  }

  @discardableResult
  private func call(_ command: String, _ host: Int? = nil) async throws -> String {
    let arguments = [directory, prefix, command] + (host.map { [String($0)] } ?? [])
    let started = try tool.start(program: Self.script, arguments)
    let result = try await tool.result(of: started, within: .seconds(60))
    try #require(result.code == 0, "\(arguments): \(result)")
    return String(result.output.prefix { !$0.isNewline })
  }
}
