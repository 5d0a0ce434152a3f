import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision

/// Runs one topology, injects faults, and collects the findings.
struct SoakRound {
  let number: Int
  let subject: any SoakSubject
  let options: SoakOptions
  let choice: FaultChoice
  /// The time at which faults end at the latest.
  let deadline: ContinuousClock.Instant?

  private static let calmTime: Duration = .seconds(1)

  func run(faults: Int, using generator: inout SplitMix64) async throws -> SoakOutcome {
    let directory = try TestDirectory()
    let failpoints = FailpointSwitch(in: directory)
    var environment: [String: String] = [:]
    if !options.isCalm {
      try failpoints.arm()
      environment = [
        FailpointCounter.rulesVariable: FailpointRates.text(of: subject.topic, round: number),
        FailpointCounter.seedVariable: String(generator.next()),
        FailpointCounter.switchVariable: failpoints.path,
      ]
    }
    let topology = subject.topology(
      name: "soak", program: try BinaryLocator.find("TestNodes"), environment: environment,
      durability: options.durability,
      heartbeat: options.isCalm ? .seconds(10) : .milliseconds(1_500))
    let running: RunningTopology
    do {
      running = try await RunningTopology(
        topology, in: directory,
        hasDisk: !options.isCalm && choice.kinds.contains(.fillDisk))
    } catch {
      directory.remove()
      throw error
    }
    let load = subject.load(running.client, options.durability, seed: generator.next())
    var outcome = SoakOutcome()
    do {
      try await runLoad(running, load, faults: faults, failpoints, &outcome, &generator)
    } catch {
      outcome.violations.append("\(error)")
    }
    outcome.violations += await running.stop()
    if outcome.violations.isEmpty { load.inspect(running.directories, &outcome) }
    let hasViolations = !outcome.violations.isEmpty
    if hasViolations { outcome.directory = directory.path }
    await running.finish(keeping: hasViolations)
    return outcome
  }

  private func runLoad(
    _ running: RunningTopology, _ load: any SoakLoad, faults: Int,
    _ failpoints: FailpointSwitch,
    _ outcome: inout SoakOutcome, _ generator: inout SplitMix64
  ) async throws {
    let log = running.log
    let injector = FaultInjector(running, subject, failpoints)
    defer {
      log.read()
      outcome.counts = injector.counts
      outcome.counts += log.counts
      outcome.meetings += log.meetings
    }
    try await running.waitUntilRunning()
    let loadTask = Task { try await load.run() }
    do {
      if options.isCalm {
        try await Task.sleep(for: Self.calmTime)
      } else {
        try await injector.run(choice.weighted(round: number), using: &generator) {
          log.read()
          return injector.counts.total + log.counts.total >= faults
            || deadline.map { ContinuousClock.now >= $0 } ?? false
        }
      }
    } catch {
      // Failpoints must not act during the graceful stop that follows.
      failpoints.disarm()
      load.stop()
      _ = await loadTask.result
      throw error
    }
    failpoints.disarm()
    load.stop()
    try await loadTask.value
    try await load.verify(&outcome)
  }
}
