import PipeRuntime

/// Runs all rounds of a soak, and prints the verdict.
struct SoakRun {
  private let options: SoakOptions
  private let choice: FaultChoice
  /// The reason why the soak cannot fill a disk; `nil` if it can.
  private let diskUnavailableReason: String?
  private var generator: SplitMix64
  private var total = SoakOutcome()
  private var rounds = 0

  /// The number of faults after which each kind of fault must have struck.
  private static let longRun = 1_000
  private static let calmRounds = 5

  init(_ options: SoakOptions) {
    self.options = options
    diskUnavailableReason = options.isCalm ? nil : SmallDisk.unavailableReason
    choice = FaultChoice(options.topic, options.durability, fillsDisk: diskUnavailableReason == nil)
    generator = SplitMix64(seed: options.seed)
  }

  /// Runs the soak.
  /// - Returns: Whether there were no violations.
  mutating func run() async throws -> Bool {
    let start = ContinuousClock.now
    let deadline = options.time.map { start + $0 }
    printLine(
      "soak of \(options.topic.rawValue): seed \(options.seed), "
        + "durability \(options.durability.rawValue)")
    if let diskUnavailableReason {
      printLine("no disk is filled, since there can be no small one: \(diskUnavailableReason)")
    }
    while shouldContinue(until: deadline) {
      // Each round has a generator of its own, so that a round does not depend on the duration of
      // the previous one.
      var generator = SplitMix64(seed: self.generator.next())
      let subject = options.topic.subject(round: rounds, using: &generator)
      let remaining = options.faults == 0 ? Int.max : options.faults - total.counts.total
      rounds += 1
      let roundStart = ContinuousClock.now
      let round = SoakRound(
        number: rounds - 1, subject: subject, options: options, choice: choice,
        deadline: deadline)
      let outcome = try await round.run(
        faults: min(remaining, options.roundFaults), using: &generator)
      printReport(outcome, of: subject, took: .now - roundStart)
      add(outcome)
    }
    return printConclusion(took: .now - start)
  }

  private func shouldContinue(until deadline: ContinuousClock.Instant?) -> Bool {
    if let deadline, ContinuousClock.now >= deadline { return false }
    if options.isCalm { return rounds < Self.calmRounds }
    return options.faults == 0 || total.counts.total < options.faults
  }

  private mutating func add(_ outcome: SoakOutcome) {
    total += outcome
    total.violations += outcome.violations.map { "round \(rounds): \($0)" }
  }

  private func printReport(
    _ outcome: SoakOutcome, of subject: any SoakSubject, took time: Duration
  ) {
    let committedText =
      options.topic.involvesComposites ? "\(outcome.meetings.committed) meetings, " : ""
    printLine(
      "round \(rounds): \(subject.summary), \(outcome.counts.total) faults, \(committedText)"
        + "\(outcome.arrived) numbers arrived, "
        + "\(time.shortText): \(outcome.violations.isEmpty ? "exact" : "VIOLATED")")
    guard let directory = outcome.directory else { return }
    printLine("  nodes: " + subject.details)
    for violation in outcome.violations.prefix(12) { printLine("  \(violation)") }
    if outcome.violations.count > 12 { printLine("  and \(outcome.violations.count - 12) more") }
    printLine("  its file and its logs are kept in \(directory)")
  }

  private func printConclusion(took time: Duration) -> Bool {
    let counts = total.counts
    if !options.isCalm { printLine("faults that struck:\n\(counts.table(of: choice))") }
    if options.topic.involvesComposites {
      printLine("what became of meetings:\n\(total.meetings.text)")
    }
    var problems: [String] = []
    if !options.isCalm, counts.total < options.faults {
      problems.append("only \(counts.total) of \(options.faults) faults in the time")
    }
    if counts.total >= Self.longRun {
      problems += missing("struck", counts.missing(of: choice))
      if options.topic.involvesComposites { problems += missing("seen", total.meetings.missing) }
    }
    return SoakVerdict(options: options, rounds: rounds, faults: counts.total, total: total)
      .printReport(with: problems, took: time)
  }

  private func missing(_ verb: String, _ what: [String]) -> [String] {
    what.isEmpty ? [] : ["never \(verb): \(what.joined(separator: ", "))"]
  }
}
