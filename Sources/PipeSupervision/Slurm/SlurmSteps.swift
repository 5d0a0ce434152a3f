import Glibc
import PipeClient
import PipeSystem
import PipeTransport

/// Starts the processes of a topology on the hosts of a job of Slurm's, ends them there, and finds out what became of
/// them.
///
/// Once a host does not answer for long, Slurm takes it out of the job, and it does not come back. Another job is asked
/// for then, which has that host alone.
final class SlurmSteps {
  private let job: SlurmJob
  private let commands: SlurmCommands
  private let calls: ChildCalls
  /// The jobs that have hosts which the first one has lost; `nil` while one is asked for.
  private var replacements: [String: String?] = [:]
  /// All of them.
  private var taken: [String] = []
  /// The processes that hosts are asked about, or are to be.
  private var asked: Set<SlurmStep> = []
  /// What each host is asked next.
  private var questions: [String: [(step: SlurmStep, then: (SlurmCommands.Verdict) -> Void)]] = [:]
  /// The hosts that are asked right now.
  private var busy: Set<String> = []

  /// How many processes a host is asked about at once: the pipe has to hold its answer.
  private static let askedTogether = 200

  /// - Throws: ``SlurmError`` where Slurm's programs are not there.
  init(_ job: SlurmJob, environment: [String: String], loop: PollLoop) throws(SlurmError) {
    self.job = job
    commands = SlurmCommands(try SlurmTools(environment), environment: environment)
    calls = ChildCalls(loop)
  }

  // MARK: Processes

  /// How the process of a node is known to Slurm.
  func step(of node: String, incarnation: UInt64, on host: String) -> SlurmStep {
    let name = "\(job.id).\(node).\(incarnation)"
    // Where no job has the host, srun says so.
    return SlurmStep(name, on: host, in: present(of: host) ?? job.id)
  }

  /// A step that no process has, by which a host is asked whether it answers.
  func step(ofHost host: String) -> SlurmStep {
    SlurmStep("\(job.id).host.\(host)", on: host, in: present(of: host) ?? job.id)
  }

  func command(
    _ command: ChildCommand, as step: SlurmStep, of node: String, in topology: String, input: Int32
  ) -> ChildCommand {
    commands.start(command, as: step, of: "\(job.id).\(topology).\(node)", input: input)
  }

  /// Sends a signal to a process, wherever Slurm finds it.
  /// - Parameter srun: The process that waits for it, where there is one.
  func signal(_ signal: Signal, to step: SlurmStep, srun: Int32?) {
    calls.start(commands.end(step, with: signal.number, srun: srun)) { _ in }
  }

  /// Reads from now on what a process writes that a former orchestrator has started.
  func attach(to step: SlurmStep) -> ChildCommand { commands.attach(to: step) }

  /// Asks its host what became of a process, unless that is being asked already. A host is asked of all together.
  func ask(_ step: SlurmStep, then: @escaping (SlurmCommands.Verdict) -> Void) {
    guard asked.insert(step).inserted else { return }
    questions[step.host, default: []].append((step, then))
    calls.loop.schedule(after: .zero, for: self) { $0.askNext(step.host) }
  }

  private func askNext(_ host: String) {
    guard !busy.contains(host), let all = questions.removeValue(forKey: host) else { return }
    guard let job = present(of: host) else {
      for (step, _) in all { asked.remove(step) }
      return
    }
    let questions = all.prefix(Self.askedTogether)
    if questions.count < all.count { self.questions[host] = Array(all[questions.count...]) }
    busy.insert(host)
    let place = SlurmStep("\(self.job.id).\(host).asked", on: host, in: job)
    calls.start(commands.ask(about: questions.map(\.step.name), as: place)) { [weak self] answer in
      let verdicts = SlurmCommands.Verdict.all(in: answer)
      if let self {
        busy.remove(host)
        for (step, _) in questions { asked.remove(step) }
        if verdicts.isEmpty { missed(host, in: job) }
      }
      for (step, then) in questions { then(verdicts[step.name] ?? .unknown) }
      self?.askNext(host)
    }
  }

  // MARK: Hosts

  /// Slurm has taken a host out of the job that a step was in, or may have done so.
  func lost(_ step: SlurmStep) {
    guard present(of: step.host) == step.job else { return }
    replacements[step.host] = .some(nil)
    take(step.host)
  }

  /// Nothing ran on a host that was lost before: the job may have it no more.
  private func missed(_ host: String, in job: String) {
    guard replacements[host] == .some(job) else { return }
    replacements[host] = .some(nil)
    take(host)
  }

  /// The job that has a host.
  private func present(of host: String) -> String? {
    guard let replacement = replacements[host] else { return job.id }
    return replacement
  }

  /// Asks for the host until there is a job that has it.
  private func take(_ host: String) {
    let take = commands.take(host, as: nameOfReplacements, unlessIn: [job.id] + taken)
    calls.start(take) { [weak self] answer in
      guard let self else { return }
      if let job = SlurmCommands.job(in: answer) {
        replacements[host] = job
        if job != self.job.id, !taken.contains(job) { taken.append(job) }
      } else {
        calls.loop.schedule(after: .seconds(1), for: self) { $0.take(host) }
      }
    }
  }

  private var nameOfReplacements: String { "piperuntime-\(job.id)" }

  // MARK: The end

  /// Takes the ends of Slurm's commands.
  func reap() { calls.reap() }

  /// Ends the additional jobs.
  func close() {
    guard !replacements.isEmpty else { return }
    _ = try? ChildAnswer.read(
      commands.endJobs(nameOfReplacements), within: .seconds(10), limit: 1 << 20)
  }
}

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

/// What an `srun` has written of its process, which tells whether its own end is that of the process.
package struct SrunReport: Hashable, Sendable {
  /// Why it is unknown what became of the process.
  package private(set) var doubt: String?
  /// The last that is not about how a task has ended.
  package private(set) var problem: String?
  /// Whether it has reported how the process has ended, or that there never was one.
  private var isSettled = false

  private static let prefix = "srun: error: "

  package init() {}

  /// Takes a line of its output, or of the process's.
  package mutating func take(_ line: String) {
    guard line.hasPrefix(Self.prefix) else { return }
    let text = line.dropFirst(Self.prefix.count)
    if text.contains(": task ") {
      isSettled = true
      return
    }
    problem = String(text)
    if text.hasPrefix("Unable to create step") { isSettled = true }
    // With this it ends with code 0, although the process may go on.
    if text.hasPrefix("Node failure on") { doubt = line }
  }

  /// Whether Slurm has given its host up.
  package var hasLostHost: Bool { doubt != nil }

  /// Why the end of the `srun` does not tell that of its process; `nil` where it does.
  package func doubt(about end: ProcessExit) -> String? {
    if let doubt { return doubt }
    if end == .exited(code: 0) { return nil }
    if case .exited = end, isSettled { return nil }
    return "its srun ended (\(end)) without a word on its process"
      + (problem.map { ": \($0)" } ?? "")
  }

  /// How the process has ended: srun passes a signal on as a shell does.
  package static func exit(of srun: ProcessExit) -> ProcessExit {
    if case .exited(let code) = srun, code > 128, code <= 128 + 64 {
      return .signalled(number: code - 128)
    }
    return srun
  }
}
