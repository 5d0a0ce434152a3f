import Glibc
import PipeRuntime
import PipeSupervision

/// Three hosts `fh1` to `fh3` in namespaces of this machine, and a job of a Slurm of their own that has them.
final class SlurmHosts: Sendable {
  private static let script = "Tests/EndToEndTests/Slurm/cluster.sh"
  private let directory: String
  private let name: String
  private let job: String

  /// Why there can be none here; `nil` where there can.
  static var obstacle: String? {
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

  /// A host loses its power.
  func lose(_ host: Int) throws { _ = try Self.call(directory, name, ["lose", String(host)]) }

  /// What a program is called with that is to run where the orchestrator does.
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
        path: FileSystem.absolute(script), arguments: [directory, name] + arguments,
        environment: ProcessEnvironment.current, output: .descriptor(descriptor)))
    let end = child.wait()
    let text = FileSystem.text(of: answer) ?? ""
    guard end == .exited(code: 0) else {
      throw HarnessError("'\(script) \(arguments.joined(separator: " "))' failed: \(text)")
    }
    return String(text.prefix { !$0.isNewline })
  }
}
