import Glibc
import PipeSystem
import PipeTransport

/// Starts the processes of a topology on the hosts of a job of Slurm's, ends them there, and finds out what became of
/// them.
final class SlurmEngine {
  private let job: SlurmJob
  private let commands: SlurmCommands
  private let calls: ChildCalls
  /// The hosts that the job has lost: once one does not answer, Slurm takes it out, and it does not come back.
  private var dropped: Set<String> = []
  private var asked: Set<SlurmStep> = []

  /// - Throws: ``SlurmError`` where Slurm's programs are not there.
  init(_ job: SlurmJob, environment: [String: String], loop: PollLoop) throws(SlurmError) {
    self.job = job
    commands = SlurmCommands(try SlurmTools(environment), environment: environment)
    calls = ChildCalls(loop)
  }

  func step(of node: String, incarnation: UInt64, on host: String) -> SlurmStep {
    SlurmStep(
      of: node, incarnation: incarnation, on: host, in: job.id, isOwnJob: dropped.contains(host))
  }

  func command(_ command: ChildCommand, as step: SlurmStep, input: Int32) -> ChildCommand {
    commands.start(command, as: step, input: input)
  }

  /// Sends a signal to a process, wherever Slurm finds it.
  func signal(_ signal: Signal, to step: SlurmStep) {
    calls.start(commands.end(step, with: signal.number)) { _ in }
  }

  /// Slurm has given a host up.
  func lost(_ host: String) { dropped.insert(host) }

  /// Asks what became of a process, unless that is being asked already.
  func ask(_ step: SlurmStep, then: @escaping (SlurmFindings.Verdict) -> Void) {
    guard asked.insert(step).inserted else { return }
    let isInJob = step.job != nil && !dropped.contains(step.host)
    calls.start(commands.ask(step, isInJob: isInJob)) { [weak self] answer in
      self?.asked.remove(step)
      then(SlurmFindings(answer).verdict(on: step, isInJob: isInJob))
    }
  }

  /// Takes the ends of what was called.
  func reap() { calls.reap() }
}
