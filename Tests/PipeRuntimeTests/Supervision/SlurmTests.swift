import PipeRuntime
import PipeSupervision
import Testing

@Suite("A job of Slurm's")
struct SlurmJobTests {
  private let job = SlurmJob(id: "7", addresses: ["fh1": "10.0.0.1", "fh2": "10.0.0.2"])

  private func examined(_ text: String) throws -> DeploymentFile.Examined {
    try DeploymentFile.examine(
      text: Array(text.utf8), file: "lab.yaml", variables: TopologyVariables([:]))
  }

  @Test("hosts that it does not have are told with their places, and what it has")
  func hosts() throws {
    let text = """
      engine: slurm
      places:
        front: { hosts: [fh1], spare: [fh9] }
        back: { hosts: [fh2] }
      """
    let found = job.check(try examined(text)).map(\.description)
    #expect(
      found == [
        "lab.yaml:3:33: error: place 'front': host 'fh9' is not one of job 7's; it has 'fh1', 'fh2'. "
          + "Did you mean 'fh1'? [unknown-host]"
      ])
  }

  @Test("outside a job, what to do is told")
  func none() {
    #expect(throws: SlurmError.noJob) { try SlurmJob.current([:]) }
    #expect("\(SlurmError.noJob)".contains("'orchestrator submit'"))
  }

  @Test("where Slurm's programs are not there, the first is named")
  func tools() {
    #expect(throws: SlurmError.noTool("srun")) {
      try SlurmJob.current(["SLURM_JOB_ID": "7", "PATH": "/nowhere"])
    }
  }

  @Test("the orchestrator's own address is that of its host in the job")
  func own() {
    #expect(job.ownAddress(["SLURMD_NODENAME": "fh2"]) == "10.0.0.2")
    #expect(job.ownAddress(["SLURMD_NODENAME": "login"]) == nil && job.ownAddress([:]) == nil)
  }
}
