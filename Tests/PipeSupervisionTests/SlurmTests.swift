import PipeClient
import PipeSupervision
import PipeTopology
import PipeWire
import Testing

@Suite("A Slurm job")
struct SlurmJobTests {
  private let job = SlurmJob(id: "7", addresses: ["fh1": "10.0.0.1", "fh2": "10.0.0.2"])

  private func examined(_ text: String) throws -> DeploymentFile.Examination {
    try DeploymentFile.examine(
      text: Array(text.utf8), file: "lab.yaml", variables: TopologyVariables([:]))
  }

  @Test("Hosts outside the job are reported with their places and the job's hosts")
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
        "lab.yaml:3:33: error: place 'front': host 'fh9' is not in job 7; it has 'fh1', 'fh2'. "
          + "Did you mean 'fh1'? [unknown-host]"
      ])
  }

  @Test("A run outside a job causes an error that says what to do")
  func none() {
    #expect(throws: SlurmError.noJob) { try SlurmJob.current([:]) }
    #expect("\(SlurmError.noJob)".contains("'orchestrator submit'"))
  }

  @Test("If Slurm programs are missing, the error names the first missing program")
  func tools() {
    #expect(throws: SlurmError.noTool("srun")) {
      try SlurmJob.current(["SLURM_JOB_ID": "7", "PATH": "/nowhere"])
    }
  }

  @Test("The orchestrator's address is its host's address in the job")
  func own() {
    #expect(job.ownAddress(["SLURMD_NODENAME": "fh2"]) == "10.0.0.2")
    #expect(job.ownAddress(["SLURMD_NODENAME": "login"]) == nil && job.ownAddress([:]) == nil)
  }
}

@Suite("Messages of srun about the end of a process")
struct SrunReportTests {
  private func report(_ lines: String...) -> SrunReport {
    var report = SrunReport()
    for line in lines { report.take(line) }
    return report
  }

  @Test("The exit code or signal that srun prints for a task counts as the process's exit")
  func task() {
    let failed = report("hello", "srun: error: fh1: task 0: Exited with exit code 3")
    #expect(failed.uncertainty(about: .exited(code: 3)) == nil && failed.lastError == nil)
    #expect(SrunReport.exit(of: .exited(code: 3)) == .exited(code: 3))
    let killed = report("srun: error: fh1: task 0: Killed")
    #expect(killed.uncertainty(about: .exited(code: 137)) == nil)
    #expect(SrunReport.exit(of: .exited(code: 137)) == .signalled(number: 9))
    #expect(report().uncertainty(about: .exited(code: 0)) == nil)
  }

  @Test("If srun could not create a step, the report says that no process runs, with the reason")
  func none() {
    let refused = report(
      "srun: error: Unable to create step for job 1: Requested node configuration is not available")
    #expect(refused.uncertainty(about: .exited(code: 1)) == nil && !refused.hasLostHost)
    #expect(refused.lastError?.hasPrefix("Unable to create step for job 1") == true)
  }

  @Test(
    "If a host has failed, its process's end is uncertain, although srun exits without an error")
  func host() {
    let lost = report("srun: error: Node failure on fh1")
    #expect(lost.hasLostHost)
    #expect(lost.uncertainty(about: .exited(code: 0)) == "srun: error: Node failure on fh1")
  }

  @Test(
    "If srun fails or is killed without a report on its task, the task's end is uncertain"
  )
  func silent() {
    #expect(report().uncertainty(about: .signalled(number: 9)) != nil)
    let late = report("srun: error: timeout waiting for task launch, started 0 of 1 tasks")
    #expect(late.uncertainty(about: .exited(code: 1))?.hasSuffix("started 0 of 1 tasks") == true)
    // An earlier line about a task does not make the end of a killed srun certain.
    #expect(
      report("srun: error: fh1: task 0: Killed").uncertainty(about: .signalled(number: 9)) != nil)
  }
}
