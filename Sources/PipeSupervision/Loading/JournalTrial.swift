import Glibc
import PipeClient
import PipeJournal
import PipeMachines
import PipeSystem
import PipeWire

/// Asks the programs of a topology file to read every state and event in the existing journals,
/// before the nodes of the file are started.
package struct JournalTrial: Sendable {
  /// The tasks of one program.
  private struct Run: Sendable {
    let program: String
    let environment: [String: String]
    var tasks: [JournalTrialRequest.Task]
  }

  /// The findings of a trial.
  package struct Report: Sendable {
    /// The number of states and events that the programs have read.
    package var valueCount = 0
    /// The states and events that the programs cannot read.
    package var failures: [MigrationFailure] = []
    /// The reasons why journals cannot be used at all, with the names of their nodes.
    package var unusableJournals: [(node: String, reason: String)] = []

    package init() {}
  }

  private var runs: [Run] = []
  /// The coordinators, with their journals.
  private var coordinators: [(node: String, journal: String)] = []
  /// The processor time within which a machine must read one value.
  private let valueTimeLimit: Duration

  /// The number of values that may crash a program before the trial of the program is given up.
  private static let crashLimit = 10
  /// The maximum size of a program's output. Unit: bytes.
  private static let outputLimit = 256 << 20
  /// The maximum time for the journals of one program.
  private static let timeout: Duration = .seconds(600)

  /// - Parameters:
  ///   - plan: The plan of the topology file.
  ///   - started: The nodes that the file starts; `nil` for all nodes.
  package init(of plan: LaunchPlan, starting started: [String]? = nil) {
    let isStarted: (String) -> Bool = { started?.contains($0) ?? true }
    valueTimeLimit = plan.nodes.first?.supervision.timeouts.start ?? .seconds(10)
    for node in plan.nodes where !node.isRemote {
      // Without a journal, there is nothing to read: the node keeps no journal, or has not run yet.
      guard let journal = plan.recordedJournal(of: node) else { continue }
      if isStarted(node.name) {
        if !node.composites.isEmpty { coordinators.append((node.name, journal)) }
        if let task = Self.task(node, journal: journal, node.name) {
          add(task, of: node, in: plan)
        }
      }
      for out in node.configuration.outs where out.steps == nil && isStarted(out.receiver) {
        guard let receiver = plan[out.receiver] else { continue }
        for name in [out.name] + plan.nameChanges.formerNames(ofPipe: out.name) {
          guard
            let task = Self.task(
              receiver, journal: journal, node.name,
              pipe: .init(
                name, to: out.receiver, receiverJournal: plan.recordedJournal(of: receiver)))
          else { continue }
          add(task, of: receiver, in: plan)
        }
      }
    }
  }

  private static func task(
    _ node: LaunchPlan.Node, journal: String, _ owner: String,
    pipe: JournalTrialRequest.QueuedPipe? = nil
  ) -> JournalTrialRequest.Task? {
    guard case .machine(let machine, let parameters) = node.content else { return nil }
    return JournalTrialRequest.Task(
      journalPath: journal, node: owner, machine: machine, parameters: parameters, pipe: pipe)
  }

  private mutating func add(
    _ task: JournalTrialRequest.Task, of node: LaunchPlan.Node, in plan: LaunchPlan
  ) {
    let (program, environment) = (node.information.program, plan.environment(of: node))
    // Without support for `try-journals` in the program, the nodes report errors in their journals
    // only when they start.
    guard plan.programsReadingJournals.contains(program) else { return }
    let index = runs.firstIndex { $0.program == program && $0.environment == environment }
    if let index {
      runs[index].tasks.append(task)
    } else {
      runs.append(Run(program: program, environment: environment, tasks: [task]))
    }
  }

  /// Whether there is no journal to read.
  package var isEmpty: Bool { runs.isEmpty && coordinators.isEmpty }

  /// Reads the journals, which may take minutes.
  package func report() -> Report {
    var report = Report()
    for (node, journal) in coordinators {
      guard let reason = Self.problem(ofCoordinator: node, journal) else { continue }
      report.unusableJournals.append((node, reason))
    }
    for run in runs { perform(run, &report) }
    return report
  }

  private static func problem(ofCoordinator node: String, _ journal: String) -> String? {
    do throws(JournalError) {
      let machine = try JournalReader(journal, node: node).machine
      guard machine == JournalSnapshot.compositeMachine else {
        return JournalError.mismatch(
          path: journal, node: node, attribute: "machine", found: machine,
          expected: JournalSnapshot.compositeMachine
        ).description
      }
      return nil
    } catch {
      switch error {
      case .damaged, .otherVersion, .stateTooLarge, .mismatch, .undecodable: return "\(error)"
      // The orchestrator cannot read the journal now. The node reports the problem later.
      case .missing, .inaccessible, .full, .locked, .superseded, .failed: return nil
      }
    }
  }

  // MARK: Running the programs

  private func perform(_ run: Run, _ report: inout Report) {
    var skipped: [StoredValueID] = []
    while true {
      let trial: (answers: [JournalTrialAnswer], end: ProgramEnd)
      do { trial = try call(run, skipping: skipped) } catch {
        report.unusableJournals.append((run.tasks[0].node, "the journals cannot be read: \(error)"))
        return
      }
      if case .crashed(let value?, let reason) = trial.end, skipped.count < Self.crashLimit,
        run.tasks.indices.contains(value.task), !skipped.contains(value)
      {
        skipped.append(value)
        report.failures.append(
          MigrationFailure(
            value, of: run.tasks[value.task], schema: unknownSchema, field: nil, reason: reason))
        continue
      }
      take(trial.answers, of: run, &report)
      if case .crashed(_, let reason) = trial.end {
        report.unusableJournals.append(
          (run.tasks[0].node, "'\(run.program) try-journals' failed: \(reason)"))
      }
      return
    }
  }

  private func take(_ answers: [JournalTrialAnswer], of run: Run, _ report: inout Report) {
    for answer in answers {
      switch answer {
      case .failed(let value, let schema, let field, let reason):
        report.failures.append(
          MigrationFailure(
            value, of: run.tasks[value.task], schema: schema, field: field, reason: reason))
      case .unusable(let task, let reason):
        report.unusableJournals.append((run.tasks[task].node, reason))
      case .done(let count): report.valueCount += count
      }
    }
  }

  /// The end of a program that has read journals.
  private enum ProgramEnd {
    case done
    /// The program has failed: the value that it was reading, or `nil` if it was reading none, and
    /// the reason.
    case crashed(StoredValueID?, String)
  }

  private func call(
    _ run: Run, skipping skipped: [StoredValueID]
  ) throws -> (answers: [JournalTrialAnswer], end: ProgramEnd) {
    let directory = try FileSystem.makeTemporaryDirectory(
      (ProcessEnvironment.current["TMPDIR"] ?? "/tmp") + "/piperuntime-journals-")
    defer { FileSystem.removeTree(directory) }
    let (request, progress) = (directory + "/request.json", directory + "/progress")
    try FileSystem.replace(
      progress, with: [UInt8](repeating: 0, count: JournalTrialRequest.progressByteCount))
    try FileSystem.replace(
      request,
      with: JSONRecord.encode(
        JournalTrialRequest(
          tasks: run.tasks, skipped: skipped, progressPath: progress,
          valueTimeLimit: max(1, valueTimeLimit.wholeMilliseconds))))
    let output = try ChildOutput.read(
      ChildCommand(
        path: run.program, arguments: ["try-journals", request], environment: run.environment),
      within: Self.timeout, limit: Self.outputLimit)
    let answers = output.output.split(separator: UInt8(ascii: "\n")).compactMap {
      try? JSONRecord.decode(JournalTrialAnswer.self, from: Array($0))
    }
    if case .done? = answers.last, output.exit?.isSuccess == true { return (answers, .done) }
    return (answers, .crashed(Self.value(in: progress), reason(output)))
  }

  /// Returns the value that the program was reading; `nil` if it was reading none.
  private static func value(in progress: String) -> StoredValueID? {
    guard let bytes = FileSystem.contents(of: progress), bytes.count >= 4 else { return nil }
    let count = bytes.withUnsafeBytes {
      Int(UInt32(littleEndian: $0.loadUnaligned(as: UInt32.self)))
    }
    guard count > 0, count <= bytes.count - 4 else { return nil }
    return try? JSONRecord.decode(StoredValueID.self, from: Array(bytes[4..<(4 + count)]))
  }

  private func reason(_ output: ChildOutput) -> String {
    if output.exit == .signalled(number: SIGPROF) {
      return "the migration did not end within \(valueTimeLimit.shortText) of processor time"
    }
    let exit = output.exit?.description ?? "the program did not end"
    let problem = output.errorText?.split(separator: "\n").first { $0.contains("Fatal error") }
    return "the migration ended the process (\(exit))" + (problem.map { ": \($0)" } ?? "")
  }
}
