import Glibc
import PipeClient
import PipeSystem
import PipeTransport

/// Starts and ends the processes of a topology on the hosts of a Slurm job, and checks whether
/// these processes are still running.
///
/// If a host does not answer for a long time, Slurm removes the host from the job, and does not add
/// it again. Then the orchestrator requests an additional job that has only this host.
final class SlurmSteps {
  private let job: SlurmJob
  private let commands: SlurmCommands
  private let calls: ChildCalls
  /// For each host that the first job has lost: the job that has the host now; `nil` while an
  /// additional job is being requested.
  private var replacements: [String: String?] = [:]
  /// All additional jobs.
  private var additionalJobs: [String] = []
  /// The processes about which a query is pending or running.
  private var queriedSteps: Set<SlurmStep> = []
  /// For each host: the pending queries.
  private var pendingQueries:
    [String: [(step: SlurmStep, then: (SlurmCommands.ProcessPresence) -> Void)]] = [:]
  /// The hosts that are being queried now.
  private var queriedHosts: Set<String> = []

  /// The maximum number of processes in one query, so that the answer fits into the pipe.
  private static let queryBatchLimit = 200

  /// - Throws: ``SlurmError`` if Slurm's programs are missing.
  init(_ job: SlurmJob, environment: [String: String], loop: PollLoop) throws(SlurmError) {
    self.job = job
    commands = SlurmCommands(try SlurmTools(environment), environment: environment)
    calls = ChildCalls(loop)
  }

  // MARK: Processes on hosts of the job

  /// Returns the step of a node's process.
  func step(of node: String, incarnation: UInt64, on host: String) -> SlurmStep {
    let name = "\(job.id).\(node).\(incarnation)"
    // If no job has the host, srun reports the error.
    return SlurmStep(name, on: host, in: currentJob(of: host) ?? job.id)
  }

  /// Returns a step without a process, which is used to ask whether a host answers.
  func step(ofHost host: String) -> SlurmStep {
    SlurmStep("\(job.id).host.\(host)", on: host, in: currentJob(of: host) ?? job.id)
  }

  func command(
    _ command: ChildCommand, as step: SlurmStep, of node: String, in topology: String, input: Int32
  ) -> ChildCommand {
    commands.startCommand(command, as: step, of: "\(job.id).\(topology).\(node)", input: input)
  }

  /// Sends a signal to a process on the host of its step.
  /// - Parameter srun: The srun process that waits for the step; `nil` if there is none.
  func signal(_ signal: Signal, to step: SlurmStep, srun: Int32?) {
    calls.start(commands.signalCommand(step, with: signal.number, srun: srun)) { _ in }
  }

  /// Returns the command that reads the output of a process that a former orchestrator started.
  func attachCommand(to step: SlurmStep) -> ChildCommand { commands.attachCommand(to: step) }

  /// Asks the host of a process whether the process is still running. Queries to the same host are
  /// combined.
  /// - Parameter then: Called with the answer. Not called if a query about the process is already
  ///   pending, or if no job has the host.
  func ask(_ step: SlurmStep, then: @escaping (SlurmCommands.ProcessPresence) -> Void) {
    guard queriedSteps.insert(step).inserted else { return }
    pendingQueries[step.host, default: []].append((step, then))
    calls.loop.schedule(after: .zero, for: self) { $0.sendNextQuery(step.host) }
  }

  private func sendNextQuery(_ host: String) {
    guard !queriedHosts.contains(host), let all = pendingQueries.removeValue(forKey: host) else {
      return
    }
    guard let job = currentJob(of: host) else {
      for (step, _) in all { queriedSteps.remove(step) }
      return
    }
    let pendingQueries = all.prefix(Self.queryBatchLimit)
    if pendingQueries.count < all.count {
      self.pendingQueries[host] = Array(all[pendingQueries.count...])
    }
    queriedHosts.insert(host)
    let probeStep = SlurmStep("\(self.job.id).\(host).asked", on: host, in: job)
    calls.start(commands.presenceQuery(about: pendingQueries.map(\.step.name), as: probeStep)) {
      [weak self] answer in
      let presences = SlurmCommands.ProcessPresence.presences(in: answer)
      if let self {
        queriedHosts.remove(host)
        for (step, _) in pendingQueries { queriedSteps.remove(step) }
        if presences.isEmpty { requestHostAgain(host, in: job) }
      }
      for (step, then) in pendingQueries { then(presences[step.name] ?? .unknown) }
      self?.sendNextQuery(host)
    }
  }

  // MARK: Hosts that the job has lost

  /// Requests an additional job for the host of a step. Call this if Slurm has removed, or may have
  /// removed, the host from the step's job.
  func requestReplacement(of step: SlurmStep) {
    guard currentJob(of: step.host) == step.jobID else { return }
    replacements[step.host] = .some(nil)
    requestJob(with: step.host)
  }

  /// Requests another job for a lost host, because no query could run on the host: the additional
  /// job may also have lost the host.
  private func requestHostAgain(_ host: String, in job: String) {
    guard replacements[host] == .some(job) else { return }
    replacements[host] = .some(nil)
    requestJob(with: host)
  }

  /// Returns the job that has a host; `nil` if no job has the host.
  private func currentJob(of host: String) -> String? {
    guard let replacement = replacements[host] else { return job.id }
    return replacement
  }

  /// Requests a job with the host, and repeats the request until Slurm grants a job.
  private func requestJob(with host: String) {
    let take = commands.allocationCommand(
      host, as: replacementJobName, unlessIn: [job.id] + additionalJobs)
    calls.start(take) { [weak self] answer in
      guard let self else { return }
      if let job = SlurmCommands.jobID(in: answer) {
        replacements[host] = job
        if job != self.job.id, !additionalJobs.contains(job) { additionalJobs.append(job) }
      } else {
        calls.loop.schedule(after: .seconds(1), for: self) { $0.requestJob(with: host) }
      }
    }
  }

  private var replacementJobName: String { "piperuntime-\(job.id)" }

  // MARK: Cleanup of Slurm commands and jobs

  /// Reaps the Slurm commands that have ended.
  func reap() { calls.reap() }

  /// Ends the additional jobs.
  func close() {
    guard !replacements.isEmpty else { return }
    _ = try? ChildOutput.read(
      commands.endJobsCommand(named: replacementJobName), within: .seconds(10), limit: 1 << 20)
  }
}

/// The reason why Slurm cannot be used.
package enum SlurmError: Error, Hashable, Sendable {
  case noJob
  case noHosts(job: String)
  /// The orchestrator runs on a host that is not in the job, so its address is unknown.
  case noAddress(job: String)
  case noTool(String)
  case failed(command: String, reason: String)
}

extension SlurmError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .noJob:
      "engine 'slurm' requires a Slurm job, and the orchestrator does not run in a job; submit a "
        + "job with 'orchestrator submit', or run the command within 'salloc'"
    case .noHosts(let job):
      "job \(job) has no hosts; run 'squeue' to check whether the job has ended"
    case .noAddress(let job):
      "the address of the orchestrator is unknown, because this host is not in job \(job); set "
        + "'address' in the deployment file to an address of this host that the hosts of the job "
        + "can reach"
    case .noTool(let name):
      "'\(name)' not found in PATH; install the Slurm client programs (Debian package "
        + "'slurm-client')"
    case .failed(let command, let reason): "'\(command)' failed: \(reason)"
    }
  }
}

/// The messages of an `srun` about its process. When the `srun` ends, the messages show whether the
/// process has ended, too.
package struct SrunReport: Hashable, Sendable {
  /// The line that gives a reason why the process may still be running; `nil` if there is no such
  /// line.
  package private(set) var uncertainty: String?
  /// The last error message of the `srun`, except messages about the end of a task.
  package private(set) var lastError: String?
  /// Whether the `srun` has reported that the process has ended or was never started.
  private var isSettled = false

  private static let errorPrefix = "srun: error: "

  package init() {}

  /// Reads a line that the `srun` or its process has written.
  package mutating func take(_ line: String) {
    guard line.hasPrefix(Self.errorPrefix) else { return }
    let text = line.dropFirst(Self.errorPrefix.count)
    if text.contains(": task ") {
      isSettled = true
      return
    }
    lastError = String(text)
    if text.hasPrefix("Unable to create step") { isSettled = true }
    // After this message, srun exits with code 0, although the process may still be running.
    if text.hasPrefix("Node failure on") { uncertainty = line }
  }

  /// Whether Slurm has given up the host on which the process ran.
  package var hasLostHost: Bool { uncertainty != nil }

  /// Returns the reason why the process may still be running although its `srun` has ended. Returns
  /// `nil` if the process has certainly ended.
  package func uncertainty(about end: ProcessExit) -> String? {
    if let uncertainty { return uncertainty }
    if end == .exited(code: 0) { return nil }
    if case .exited = end, isSettled { return nil }
    return "srun ended (\(end)) without reporting the end of the process"
      + (lastError.map { ": \($0)" } ?? "")
  }

  /// Returns how the process has ended, given how its srun ended. If a signal ended the process,
  /// srun's exit code is 128 plus the signal's number, as in a shell.
  package static func exit(of srun: ProcessExit) -> ProcessExit {
    if case .exited(let code) = srun, code > 128, code <= 128 + 64 {
      return .signalled(number: code - 128)
    }
    return srun
  }
}
