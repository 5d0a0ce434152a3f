/// Why Slurm cannot be used.
package enum SlurmError: Error, Hashable, Sendable {
  case noJob
  case noHosts(job: String)
  /// The job is on no host of which the orchestrator's address is known.
  case noAddress(job: String)
  case noTool(String)
  case failed(command: String, reason: String)
}

extension SlurmError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .noJob:
      "engine 'slurm' starts processes within a job, and this is none: run it by 'orchestrator submit', which makes "
        + "one, or within 'salloc'"
    case .noHosts(let job): "job \(job) has no hosts: is it over? 'squeue' tells"
    case .noAddress(let job):
      "this is no host of job \(job)'s, so nobody tells where its nodes are to reach the orchestrator: add 'address' "
        + "to the deployment file, with an address of this machine that those hosts reach"
    case .noTool(let name):
      "'\(name)' is not in PATH; install Slurm's client programs, on Debian 'slurm-client'"
    case .failed(let command, let reason): "'\(command)' failed: \(reason)"
    }
  }
}
