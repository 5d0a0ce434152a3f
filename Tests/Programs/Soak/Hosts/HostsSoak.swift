import PipeRuntime

/// Runs random topologies on hosts, injects host faults, and checks that no event is lost, repeated
/// or reordered.
struct HostsSoak {
  private let options: SoakOptions
  private var total = SoakOutcome()
  private var counts = HostFaultCounts()
  private var rounds = 0

  /// The number of faults after which each kind of fault must have struck.
  private static let longRun = 150
  private static let calmRounds = 1

  init(_ options: SoakOptions) { self.options = options }

  /// Runs the soak.
  /// - Returns: Whether there were no violations.
  mutating func run() async throws -> Bool {
    let start = ContinuousClock.now
    let deadline = options.time.map { start + $0 }
    printLine("soak of \(SoakOptions.onHosts): seed \(options.seed)")
    // Each round has a seed of its own. Another soak with this seed repeats the round as its first
    // round.
    var seed = options.seed
    while shouldContinue(until: deadline) {
      rounds += 1
      try await round(seed: seed, until: deadline)
      var generator = SplitMix64(seed: seed)
      seed = generator.next() % 1_000_000
    }
    return printConclusion(took: .now - start)
  }

  private func shouldContinue(until deadline: ContinuousClock.Instant?) -> Bool {
    if let deadline, ContinuousClock.now >= deadline { return false }
    if options.isCalm { return rounds < Self.calmRounds }
    return options.faults == 0 || counts.total < options.faults
  }

  private mutating func round(seed: UInt64, until deadline: ContinuousClock.Instant?) async throws {
    var generator = SplitMix64(seed: seed)
    let plan = HostsPlan(faults: options.isCalm ? 0 : options.roundFaults, using: &generator)
    printLine("round \(rounds), seed \(seed): \(plan.summary)")
    for line in plan.details { printLine("  \(line)") }
    let roundStart = ContinuousClock.now
    let (outcome, counts) = try await HostsRound(
      plan: plan, isCalm: options.isCalm, deadline: deadline
    ).run(using: &generator)
    self.counts += counts
    total += outcome
    total.violations += outcome.violations.map { "round \(rounds): \($0)" }
    printLine(
      "  \(counts.total) faults, \(outcome.counts.total) at failpoints, "
        + "\(outcome.meetings.committed) meetings, \(outcome.arrived) numbers arrived, "
        + "\((ContinuousClock.now - roundStart).shortText): "
        + (outcome.violations.isEmpty ? "exact" : "VIOLATED"))
    for violation in outcome.violations.prefix(12) { printLine("  \(violation)") }
    if outcome.violations.count > 12 { printLine("  and \(outcome.violations.count - 12) more") }
    guard let directory = outcome.directory else { return }
    printLine("  its file and its logs are kept in \(directory)")
    printLine("  repeat it with: make soak SOAKS=\(SoakOptions.onHosts) SEED=\(seed)")
  }

  private func printConclusion(took time: Duration) -> Bool {
    printLine("faults that struck:\n\(counts.table)")
    printLine(
      "  at failpoints, found hung, adopted: \(total.counts.total), \(total.counts.foundHung), "
        + "\(total.counts.adopted)")
    printLine("what became of meetings:\n\(total.meetings.text)")
    let missing = counts.total < Self.longRun ? [] : counts.missing.map { "never struck: \($0)" }
    return SoakVerdict(options: options, rounds: rounds, faults: counts.total, total: total)
      .printReport(with: missing, took: time)
  }
}
