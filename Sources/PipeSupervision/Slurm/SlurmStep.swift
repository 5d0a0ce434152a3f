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
}
