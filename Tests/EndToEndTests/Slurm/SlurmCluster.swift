import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

extension Trait where Self == ConditionTrait {
  /// The test makes hosts and a Slurm of its own, and is skipped aloud where it may not, or has no programs for that.
  static var needsSlurm: Self {
    .enabled(
      if: SlurmCluster.isAvailable,
      "needs root, cgroups of version 1, and Debian's 'slurm-wlm', 'munge' and 'iproute2': 'tools/setup slurm-wlm munge iproute2'"
    )
  }
}

/// Three hosts `fh1` to `fh3` of one test's, in namespaces of this machine, and a job of Slurm's that has them. What
/// starts topologies is on a fourth one, at 10.77.0.10.
struct SlurmCluster {
  static var isAvailable: Bool {
    geteuid() == 0 && FileSystem.exists("/sys/fs/cgroup/freezer")
      && ["/usr/sbin/slurmctld", "/usr/sbin/munged", "/usr/bin/srun", "/usr/sbin/ip"].allSatisfy(
        FileSystem.exists)
  }

  private static let script =
    FileSystem.directory(of: #filePath) + "/cluster.sh"

  private let tool: CommandLineTool
  private let directory: String
  private let prefix: String

  /// Runs a topology on the hosts, and ends both.
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

  /// Calls back with what calls verbs within the job, and ends what runs on the hosts.
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

  /// A host loses its power.
  func lose(_ host: Int) async throws { try await call("lose", host) }

  /// It is started again.
  func start(_ host: Int) async throws { try await call("start", host) }

  /// Nothing goes to a host and comes from it.
  func partition(_ host: Int) async throws { try await call("partition", host) }

  func heal(_ host: Int) async throws { try await call("heal", host) }

  /// What Slurm runs on a host is killed, alone; on host 0 that is its controller.
  func killDaemon(of host: Int) async throws { try await call("end", host) }

  func restartDaemon(of host: Int) async throws { try await call("restart", host) }

  /// Runs a program of Slurm's where verbs are called.
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
