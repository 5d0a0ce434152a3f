import Glibc
import PipeRuntime

/// All the rounds of a soak, and their verdict.
struct SoakRun {
  private let options: SoakOptions
  private var generator: SplitMix64
  private var total = SoakRound.Outcome()
  private var rounds = 0

  /// Faults from which on each kind must have struck.
  private static let longRun = 1_000
  private static let calmRounds = 5

  init(_ options: SoakOptions) {
    self.options = options
    generator = SplitMix64(seed: options.seed)
  }

  /// - Returns: Whether everything was as it should be.
  mutating func run() async throws -> Bool {
    let start = ContinuousClock.now
    let deadline = options.time.map { start + $0 }
    say("soak: seed \(options.seed), durability \(options.durability.rawValue)")
    while wantsMore(until: deadline) {
      // Each round has a generator of its own: how long the one before took does not matter.
      var generator = SplitMix64(seed: self.generator.next())
      let shapes = SoakPlan.Shape.allCases
      let plan = SoakPlan(shapes[rounds % shapes.count], using: &generator)
      let left = options.faults == 0 ? Int.max : options.faults - total.counts.total
      rounds += 1
      let began = ContinuousClock.now
      let round = SoakRound(
        number: rounds - 1, plan: plan, options: options, deadline: deadline)
      let outcome = try await round.run(
        faults: min(left, options.roundFaults), using: &generator)
      tell(outcome, of: plan, took: .now - began)
      add(outcome)
    }
    return conclude(took: .now - start)
  }

  private func wantsMore(until deadline: ContinuousClock.Instant?) -> Bool {
    if let deadline, ContinuousClock.now >= deadline { return false }
    if options.isCalm { return rounds < Self.calmRounds }
    return options.faults == 0 || total.counts.total < options.faults
  }

  private mutating func add(_ outcome: SoakRound.Outcome) {
    total.counts += outcome.counts
    total.arrived += outcome.arrived
    total.lost += outcome.lost
    total.repeated += outcome.repeated
    total.reordered += outcome.reordered
    total.violations += outcome.violations.map { "round \(rounds): \($0)" }
  }

  private func tell(
    _ outcome: SoakRound.Outcome, of plan: SoakPlan, took time: Duration
  ) {
    say(
      "round \(rounds): \(plan.shape.rawValue) of \(plan.nodes.count) nodes, "
        + "\(outcome.counts.total) faults, \(outcome.arrived) numbers arrived, "
        + "\(time.shortText): \(outcome.violations.isEmpty ? "exact" : "VIOLATED")")
    guard let directory = outcome.directory else { return }
    say("  nodes: " + plan.nodes.map { "\($0.name)" }.joined(separator: " "))
    for violation in outcome.violations.prefix(12) { say("  \(violation)") }
    if outcome.violations.count > 12 { say("  and \(outcome.violations.count - 12) more") }
    say("  its file and its logs are kept in \(directory)")
  }

  private func conclude(took time: Duration) -> Bool {
    let counts = total.counts
    if !options.isCalm { say("faults that struck:\n\(counts.table)") }
    var problems = total.violations
    if !options.isCalm, counts.total < options.faults {
      problems.append("only \(counts.total) of \(options.faults) faults in the time")
    }
    let missing = counts.missing(durability: options.durability)
    if counts.total >= Self.longRun, !missing.isEmpty {
      problems.append("never struck: \(missing.joined(separator: ", "))")
    }
    say(
      "\(rounds) topologies, \(counts.total) faults, \(total.arrived) numbers arrived: "
        + "\(total.lost) lost, \(total.repeated) repeated, \(total.reordered) reordered; "
        + time.shortText)
    guard !problems.isEmpty else {
      say("verdict: exact")
      return true
    }
    for problem in problems.dropFirst(total.violations.count) { say(problem) }
    say("verdict: VIOLATED, in \(problems.count) places; repeat with: soak \(options.text)")
    return false
  }

  /// Prints a line at once, also into a pipe.
  private func say(_ line: String) {
    print(line)
    fflush(nil)
  }
}
