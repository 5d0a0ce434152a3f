/// What Slurm knows of a process and its host, as it answers ``SlurmCommands/ask(_:isInJob:)``.
struct SlurmFindings: Hashable, Sendable {
  enum Verdict: Hashable, Sendable {
    /// The host answers and has the process.
    case present
    /// The host answers and has it no more.
    case gone
    case unknown
  }

  /// Whether Slurm could be asked at all.
  private var isComplete = false
  /// Whether something that was started on the host just now has run.
  private var hostAnswers = false
  /// Whether Slurm says that the host is there.
  private var isUp = false
  private var steps: Set<Substring> = []

  init(_ answer: String) {
    for line in answer.split(separator: "\n") {
      if line.hasPrefix("STEP ") {
        steps.insert(line.dropFirst("STEP ".count))
      } else if line == "ASKED" {
        isComplete = true
      } else if line == "ANSWERS" {
        hostAnswers = true
      } else if let state = SlurmRecord(String(line))["State"] {
        isUp = !Self.isAway(state)
      }
    }
  }

  /// Whether a node's state says that it does not answer: its slurmd may have ended, and its processes go on.
  private static func isAway(_ state: String) -> Bool {
    state.contains("*") || state.contains("DOWN") || state.contains("NOT_RESPONDING")
      || state.contains("UNKNOWN") || state.contains("REBOOT") || state.contains("POWERED")
  }

  /// - Parameter isInJob: Whether the host still is the job's, so that something could be run there.
  func verdict(on step: SlurmStep, isInJob: Bool) -> Verdict {
    guard isComplete, isUp, hostAnswers || !isInJob else { return .unknown }
    return steps.contains(step.name[...]) ? .present : .gone
  }
}
