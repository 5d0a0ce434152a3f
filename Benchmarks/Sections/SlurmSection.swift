import Glibc
import PipeRuntime
import PipeSupervision

/// Measures a hundred nodes on three hosts of a Slurm job, each in a job step of its own: the time
/// until they are running, until a killed node runs again, and until all nodes of a host run again
/// after the host has lost power.
struct SlurmSection {
  private static let lease: Duration = .seconds(5)
  private static let deployment = """
    engine: slurm
    address: 10.77.0.10
    lease: \(lease.shortText.replacing(" ", with: ""))
    places:
      hall: { hosts: [fh1, fh2, fh3] }
    """

  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    if let unavailableReason = SlurmHosts.unavailableReason {
      return report.note("not measured: \(unavailableReason)")
    }
    let count = setting.pick(100, quick: 12)
    let directory = try TemporaryDirectory()
    let hosts = try SlurmHosts(in: directory)
    defer { withExtendedLifetime(hosts) {} }
    let oneHost = try start(count, named: "near", deployment: nil, on: nil, in: directory)
    let onSlurm = try start(
      count, named: "apart", deployment: Self.deployment, on: hosts, in: directory)
    report.add(
      Figure(
        name: "\(count) nodes on three hosts run; on one host, without Slurm",
        value: .seconds(onSlurm.elapsed), baseline: .seconds(oneHost.elapsed)))
    try measureRestarts(onSlurm.run, oneHost.run, hosts, directory, &report)
    try measureHostLoss(onSlurm.run, hosts, &report)
    report.note(
      "the hosts are namespaces of this machine, Slurm is Debian's; nodes record nothing, and may move;"
    )
    report.note(
      "host lost: from its loss to all of its nodes running on the other two; lease "
        + "\(Self.lease.shortText), heartbeat 5 s")
  }

  private func start(
    _ count: Int, named name: String, deployment: String?, on hosts: SlurmHosts?,
    in directory: TemporaryDirectory
  ) throws -> (run: TopologyRun, elapsed: Double) {
    let placementText = deployment == nil ? "" : ", place: hall, on_host_loss: move"
    let nodes = (0..<count).map {
      "\n  n\($0): { machine: Relay, durability: none\(placementText), restart: { max: 100, backoff: { initial: 20ms } } }"
    }
    let text = "topology: \(name)\nprogram: \(Programs.nodes)\nnodes:\(nodes.joined())\n"
    let start = Clock.nanoseconds
    let run = try TopologyRun(
      text, named: name, deployment: deployment, on: hosts, in: directory)
    return (run, Double(Clock.nanoseconds - start) / 1e9)
  }

  /// Measures the restart of a node, in the Slurm job and on a single host.
  private func measureRestarts(
    _ onSlurm: TopologyRun, _ oneHost: TopologyRun, _ hosts: SlurmHosts,
    _ directory: TemporaryDirectory, _ report: inout Report
  ) throws {
    var times = (onSlurm: Samples(), oneHost: Samples())
    for round in 0..<setting.pick(9, quick: 3) {
      times.onSlurm.add(try kill("n\(round)", of: onSlurm, on: hosts, in: directory))
      times.oneHost.add(try kill("n\(round)", of: oneHost, on: nil, in: directory))
    }
    report.add(
      Figure(
        name: "killed, and running again; on one host, without Slurm",
        value: .seconds(times.onSlurm.median), baseline: .seconds(times.oneHost.median)))
  }

  private func kill(
    _ node: String, of run: TopologyRun, on hosts: SlurmHosts?, in directory: TemporaryDirectory
  ) throws -> Double {
    let before = try run.directory()[node: node]?.incarnation ?? 0
    let start = Clock.nanoseconds
    try OrchestratorCommand(directory: directory, hosts: hosts).run(
      ["kill", node, "-p", run.name])
    try run.wait(until: "'\(node)' runs again") {
      $0[node: node].map { $0.isRunning && $0.incarnation > before } == true
    }
    return Double(Clock.nanoseconds - start) / 1e9
  }

  private func measureHostLoss(_ run: TopologyRun, _ hosts: SlurmHosts, _ report: inout Report)
    throws
  {
    let nodesOnHost = try run.directory().nodes.filter { $0.hostName == "fh3" }.map(\.name)
    let start = Clock.nanoseconds
    try hosts.cutPower(3)
    try run.wait(until: "the nodes of the lost host run elsewhere") { directory in
      nodesOnHost.allSatisfy { name in
        directory[node: name].map { $0.isRunning && $0.hostName != "fh3" } == true
      }
    }
    report.add(
      Figure(
        name: "host lost: its \(nodesOnHost.count) nodes run elsewhere",
        value: .seconds(Double(Clock.nanoseconds - start) / 1e9), target: .atMost(.seconds(10))))
  }
}

/// The hosts `fh1` to `fh3`, which are network namespaces of this host, with a job in a Slurm
/// installation of their own.
final class SlurmHosts: Sendable {
  private static let script = "Tests/EndToEndTests/Slurm/cluster.sh"
  private let directory: String
  private let name: String
  private let job: String

  /// The reason why the hosts are not available; `nil` if they are available.
  static var unavailableReason: String? {
    guard FileSystem.exists(script) else { return "it is run where '\(script)' is" }
    guard geteuid() == 0, FileSystem.exists("/sys/fs/cgroup/freezer") else {
      return "it needs root, and cgroups of version 1"
    }
    let programs = ["/usr/sbin/slurmctld", "/usr/sbin/munged", "/usr/sbin/ip"]
    return programs.allSatisfy(FileSystem.exists)
      ? nil : "it needs 'tools/setup slurm-wlm munge iproute2'"
  }

  init(in directory: TemporaryDirectory) throws {
    self.directory = directory.path + "/slurm"
    name = "b\(getpid() % 100_000)"
    try FileSystem.makeDirectories(self.directory)
    job = try Self.call(self.directory, name, ["up"])
  }

  deinit { _ = try? Self.call(directory, name, ["down"]) }

  /// Cuts the power of a host.
  func cutPower(_ host: Int) throws { _ = try Self.call(directory, name, ["lose", String(host)]) }

  /// The command prefix that runs a program on the orchestrator's host, `fh0`.
  var prefix: [String] { ["/usr/sbin/ip", "netns", "exec", name + "fh0"] }
  var environment: [String: String] {
    ["SLURM_CONF": directory + "/slurm.conf", "SLURM_JOB_ID": job]
  }

  private static func call(
    _ directory: String, _ name: String, _ arguments: [String]
  ) throws -> String {
    let answer = directory + "/answer"
    let descriptor = open(answer, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    defer { close(descriptor) }
    var child = try ChildProcess.spawn(
      ChildCommand(
        path: FileSystem.absolutePath(script), arguments: [directory, name] + arguments,
        environment: ProcessEnvironment.current, output: .descriptor(descriptor)))
    let end = child.wait()
    let text = FileSystem.text(of: answer) ?? ""
    guard end == .exited(code: 0) else {
      throw HarnessError("'\(script) \(arguments.joined(separator: " "))' failed: \(text)")
    }
    return String(text.prefix { !$0.isNewline })
  }
}
