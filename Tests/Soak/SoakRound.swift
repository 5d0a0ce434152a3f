import PipeRuntime
import PipeRuntimeTestKit
import Synchronization
import NumberMachines

/// One topology from its start to its end, and what was found of it.
struct SoakRound {
  let number: Int
  let plan: SoakPlan
  let options: SoakOptions
  /// When faults end, at the latest.
  let deadline: ContinuousClock.Instant?

  struct Outcome: Sendable {
    var counts = FaultCounts()
    var arrived = 0
    var lost = 0
    var repeated = 0
    var reordered = 0
    var violations: [String] = []
    /// What was kept, where something was wrong.
    var directory: String?
  }

  private static let calmTime: Duration = .seconds(2)
  /// How long numbers may be on their way after the last fault.
  private static let settleLimit: Duration = .seconds(60)

  func run(faults: Int, using generator: inout SplitMix64) async throws -> Outcome {
    let directory = try TestDirectory()
    let switchFile = directory.path + "/armed"
    var environment: [String: String] = [:]
    if !options.isCalm {
      try directory.write("", to: "armed")
      environment = [
        FailpointCounter.rulesVariable: FailpointRates.text(round: number),
        FailpointCounter.seedVariable: String(generator.next()),
        FailpointCounter.switchVariable: switchFile,
      ]
    }
    let topology = plan.topology(
      name: "soak", program: try BinaryLocator.find("TestNodes"), environment: environment,
      durability: options.durability, heartbeat: options.isCalm ? .seconds(10) : .milliseconds(500))
    let running: RunningTopology
    do {
      running = try await RunningTopology(topology, in: directory)
    } catch {
      directory.remove()
      throw error
    }
    var outcome = Outcome()
    do {
      try await drive(running, faults: faults, switchFile, &outcome, &generator)
    } catch {
      outcome.violations.append("\(error)")
    }
    outcome.violations += await running.stop()
    let isBad = !outcome.violations.isEmpty
    if isBad { outcome.directory = directory.path }
    await running.finish(keeping: isBad)
    return outcome
  }

  private func drive(
    _ running: RunningTopology, faults: Int, _ switchFile: String, _ outcome: inout Outcome,
    _ generator: inout SplitMix64
  ) async throws {
    var log = LogReader(directory: running.logs)
    let injector = FaultInjector(running.client, plan)
    var seen = FaultCounts()
    defer {
      for entry in log.next() { seen.take(entry) }
      outcome.counts = injector.counts
      outcome.counts += seen
    }
    try await running.waitUntilRunning()
    let feeder = Feeder(running.client, plan, options.durability)
    let feeding = Task { try await feeder.run() }
    do {
      if options.isCalm {
        try await Task.sleep(for: Self.calmTime)
      } else {
        try await injector.run(using: &generator) {
          for entry in log.next() { seen.take(entry) }
          return injector.counts.total + seen.total >= faults
            || deadline.map { ContinuousClock.now >= $0 } ?? false
        }
      }
    } catch {
      feeder.stop()
      _ = await feeding.result
      throw error
    }
    FileSystem.removeTree(switchFile)
    feeder.stop()
    let inputs = try await feeding.value
    try await settle(running, try Reference(plan, inputs: inputs), &outcome)
  }

  /// Waits until everything has arrived, or is found missing.
  private func settle(
    _ running: RunningTopology, _ reference: Reference, _ outcome: inout Outcome
  ) async throws {
    var last: Comparison?
    var good = 0
    _ = try await poll(every: .milliseconds(100), within: settleLimit) {
      let directory = try await running.client.directory()
      let comparison = Comparison(plan, reference, directory)
      // Twice: what comes once too often would come after the rest.
      good = comparison.isEqual && comparison.isQuiet ? good + 1 : 0
      let isStuck = last.map { $0.isQuiet && comparison.isQuiet && $0 == comparison } ?? false
      last = comparison
      return good == 2 || isStuck ? true : nil
    }
    guard let last else { return }
    outcome.arrived = last.arrived
    outcome.lost = last.lost
    outcome.repeated = last.repeated
    outcome.reordered = last.reordered
    if last.isEqual && !last.isQuiet {
      outcome.violations.append("all arrived, and yet a pipe or an effect does not come to rest")
    }
    outcome.violations += last.differences
  }

  private var settleLimit: Duration { Self.settleLimit }
}
