import PipeClient
import PipeSystem

/// One process on a host of Slurm's: a step of a job that has the host.
struct SlurmStep: Hashable, Sendable {
  /// By which Slurm is asked for it: of no other process, nor of another start of this one.
  let name: String
  let host: String
  let job: String

  init(_ name: String, on host: String, in job: String) {
    self.name = name
    self.host = host
    self.job = job
  }

  /// How its process has ended, by the end of its `srun`, which passes a signal on as a shell does.
  static func exit(of srun: ProcessExit) -> ProcessExit {
    if case .exited(let code) = srun, code > 128, code <= 128 + 64 {
      return .signalled(number: code - 128)
    }
    return srun
  }

  /// Why the end of `srun` does not tell that of its process; `nil` where it does.
  /// - Parameter doubt: What it wrote before that says so.
  static func doubt(_ srun: ProcessExit, after doubt: String?) -> String? {
    if let doubt { return doubt }
    guard case .signalled = srun else { return nil }
    return "its srun ended: \(srun)"
  }

  /// Whether a line of `srun`'s says that it does not know what became of the process, whatever it ends with.
  static func isDoubt(_ line: String) -> Bool {
    guard line.hasPrefix(prefix) else { return false }
    return ["Node failure on", "Task launch for", "Timed out waiting for job step to complete"]
      .contains { line.dropFirst(prefix.count).hasPrefix($0) }
  }

  /// What `srun` says of why there is no process; `nil` where the line tells how a task has ended.
  static func problem(in line: String) -> String? {
    guard line.hasPrefix(prefix), !line.contains(": task ") else { return nil }
    return String(line.dropFirst(prefix.count))
  }

  private static let prefix = "srun: error: "
}
