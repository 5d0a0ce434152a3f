import Glibc
import PipeRuntime
import PipeRuntimeTestKit

/// The hosts `fh1` to `fh3` of a soak, which are network namespaces of this computer, with a Slurm
/// job. The orchestrator runs on `fh0`. This process runs on another host of the same network,
/// which no fault strikes.
package final class HostCluster: Sendable {
  private let directory: TestDirectory
  private let prefix: String
  /// A helper process that removes the hosts if this process crashes.
  private let cleanupProcess: LaunchedProgram
  /// The id of the Slurm job on the hosts.
  let job: String

  private static let script =
    FileSystem.parentDirectory(of: #filePath) + "/../../../EndToEndTests/Slurm/cluster.sh"
  private static let ip = "/usr/sbin/ip"
  private static let unshare = "/usr/bin/unshare"
  private static let programs = [
    "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged", "/usr/bin/srun", ip,
    "/usr/sbin/nft", "/usr/bin/nsenter", unshare,
  ]

  /// Returns a description of what this computer lacks for a cluster; `nil` if a cluster can run.
  /// - Parameters:
  ///   - isRoot: Whether this process runs as root.
  ///   - exists: Returns whether a file exists.
  package static func missingRequirements(
    isRoot: Bool = geteuid() == 0, exists: (String) -> Bool = FileSystem.exists
  ) -> String? {
    var missing: [String] = []
    if !isRoot { missing.append("root") }
    if !exists("/sys/fs/cgroup/freezer") { missing.append("cgroups of version 1") }
    missing += programs.filter { !exists($0) }
    guard !missing.isEmpty else { return nil }
    return "hosts are namespaces of this machine with Slurm on them, for which there is no "
      + missing.joined(separator: ", no ")
      + "; the programs are in Debian's 'slurm-wlm', 'munge', 'iproute2' and 'nftables': "
      + "'tools/setup slurm-wlm munge iproute2 nftables'"
  }

  // MARK: The network namespace of this process

  private static let isHostVariable = "SOAK_IS_HOST"

  /// Moves this process into a new network namespace. To do so, the process executes its program
  /// again, because its threads already use the old namespace.
  static func enterNetworkNamespace() throws {
    if ProcessEnvironment.current[isHostVariable] != nil { return }
    setenv(isHostVariable, "1", 1)
    // The next program would inherit the signal mask, with which a thread of the pool blocks
    // signals.
    var none = sigset_t()
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, nil)
    guard let program = OwnProcess.executablePath else {
      throw SystemError("readlink", on: "/proc/self/exe", code: errno)
    }
    let line = ["unshare", "--net", "--", program] + CommandLine.arguments.dropFirst()
    var arguments: [UnsafeMutablePointer<CChar>?] = line.map { strdup($0) } + [nil]
    execv(unshare, &arguments)
    throw SystemError("execv", on: unshare, code: errno)
  }

  // MARK: Starting and stopping the cluster

  init() async throws {
    directory = try TestDirectory()
    prefix = "sk\(getpid())-"
    let script = """
      cat > /dev/null
      "$1" "$2/slurm" "$3" down
      rm -rf -- "$2"
      """
    cleanupProcess = try LaunchedProgram(
      "/bin/sh", ["-c", script, "sh", Self.script, directory.path, prefix],
      environment: ["PATH": "/usr/bin:/bin"])
    try FileSystem.makeDirectories(directory.path + "/slurm")
    do {
      let job = try await Self.runScript("up", [], directory, prefix)
      guard !job.isEmpty else { throw SoakFailure("Slurm gives no job on the hosts") }
      self.job = job
      _ = try await Self.runScript("join", [String(getpid())], directory, prefix)
    } catch {
      cleanupProcess.closeInput()
      _ = try? await cleanupProcess.waitForExit(within: .seconds(60))
      throw error
    }
  }

  /// Ends all hosts.
  /// - Returns: A description of each remaining process or namespace.
  func end() async -> [String] {
    var problems: [String] = []
    do { try await runScript("down") } catch { problems.append("\(error)") }
    cleanupProcess.signal(.kill)
    _ = try? await cleanupProcess.waitForExit(within: .seconds(10))
    let left: [String]? = try? await poll(every: .milliseconds(100), within: .seconds(10)) {
      leftovers.isEmpty ? [] : nil
    }
    if left == nil { problems += leftovers.map { "left behind: \($0)" } }
    directory.remove()
    return problems
  }

  /// Copies Slurm's output to a directory, for the investigation of a failure.
  func keepOutput(in kept: TestDirectory) {
    let slurm = directory.path + "/slurm"
    for name in FileSystem.entryNames(of: slurm)
    where name.hasPrefix(prefix) && name.hasSuffix(".out") {
      guard let bytes = FileSystem.contents(of: slurm + "/" + name, limit: 64 << 20) else {
        continue
      }
      _ = try? kept.write(
        String(decoding: bytes, as: UTF8.self), to: String(name.dropFirst(prefix.count)))
    }
  }

  /// A description of each remaining process or namespace.
  private var leftovers: [String] {
    FileSystem.entryNames(of: "/run/netns").filter { $0.hasPrefix(prefix) }.map {
      "namespace \($0)"
    }
      + FileSystem.entryNames(of: "/sys/fs/cgroup/freezer").filter { $0.hasPrefix(prefix) }
      .map { "cgroup \($0)" }
      + processes(with: ["SLURM_CONF=\(configuration)"]).map { "process \($0) of a host" }
  }

  // MARK: Faults of hosts

  /// Runs a command of the cluster script, for all hosts or for one host.
  func runScript(_ command: String, _ host: Int? = nil) async throws {
    _ = try await Self.runScript(command, host.map { [String($0)] } ?? [], directory, prefix)
  }

  private static func runScript(
    _ command: String, _ arguments: [String], _ directory: TestDirectory, _ prefix: String
  ) async throws -> String {
    let all = [directory.path + "/slurm", prefix, command] + arguments
    let program = try LaunchedProgram(script, all, environment: ["PATH": path])
    guard let exit = try await program.waitForExit(within: limit), exit.isSuccess else {
      throw SoakFailure(
        "cluster.sh \(all.dropFirst(2).joined(separator: " ")): "
          + (program.exit.map { "\($0)" } ?? "does not end") + "\n" + program.errorText)
    }
    return String(program.outputText.prefix { !$0.isNewline })
  }

  private static let path = "/usr/bin:/bin:/usr/sbin:/sbin"
  /// The longest time without progress of a command.
  private static let limit: Duration = .seconds(60)

  // MARK: Processes and files on hosts

  private var configuration: String { directory.path + "/slurm/slurm.conf" }

  /// The command prefix that runs a program on the orchestrator's host, `fh0`.
  var prefixOfOrchestrator: [String] { [Self.ip, "netns", "exec", prefix + "fh0"] }

  /// The environment of an orchestrator that runs within the Slurm job.
  var environment: [String: String] { ["SLURM_CONF": configuration, "SLURM_JOB_ID": job] }

  /// Runs a command of Slurm.
  /// - Returns: The output of the command; `nil` if the command failed.
  func runSlurm(_ program: String, _ arguments: String...) async throws -> String? {
    let line = prefixOfOrchestrator + ["/usr/bin/" + program] + arguments
    let launched = try LaunchedProgram(
      line[0], Array(line.dropFirst()),
      environment: ["SLURM_CONF": configuration, "PATH": Self.path])
    guard try await launched.waitForExit(within: Self.limit)?.isSuccess == true else { return nil }
    return launched.outputText
  }

  /// Returns the Slurm jobs other than the job of these hosts.
  func otherJobs() async throws -> [String] {
    try await runSlurm("squeue", "-h", "-o", "%i %j")?.split(separator: "\n").map(String.init)
      .filter { !$0.hasPrefix(job + " ") } ?? ["Slurm does not answer"]
  }

  /// Returns the process ids of a node on all hosts, as seen by this process.
  func processes(of node: String, in run: TestDirectory, topology: String) -> [Int32] {
    processes(with: ["PIPERUNTIME_ROOT=\(run.path)"]) {
      $0.hasPrefix("PIPERUNTIME_NODE=") && $0.hasSuffix(".\(topology).\(node)")
    }
  }

  /// Returns the ids of processes that have these variables in their environment.
  private func processes(
    with variables: [String], and more: ((String) -> Bool)? = nil
  ) -> [Int32] {
    FileSystem.entryNames(of: "/proc").compactMap { Int32($0) }.filter { pid in
      guard pid != getpid(), let environment = FileSystem.contents(of: "/proc/\(pid)/environ")
      else { return false }
      let all = environment.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
      return variables.allSatisfy(all.contains) && (more.map { all.contains(where: $0) } ?? true)
    }
  }
}
