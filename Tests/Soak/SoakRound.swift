import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision

/// One topology from its start to its end, and what was found of it.
struct SoakRound {
  let number: Int
  let subject: any SoakSubject
  let options: SoakOptions
  /// When faults end, at the latest.
  let deadline: ContinuousClock.Instant?

  private static let calmTime: Duration = .seconds(2)

  func run(faults: Int, using generator: inout SplitMix64) async throws -> SoakOutcome {
    let directory = try TestDirectory()
    let switchFile = directory.path + "/armed"
    var environment: [String: String] = [:]
    if !options.isCalm {
      try directory.write("", to: "armed")
      environment = [
        FailpointCounter.rulesVariable: FailpointRates.text(of: subject.topic, round: number),
        FailpointCounter.seedVariable: String(generator.next()),
        FailpointCounter.switchVariable: switchFile,
      ]
    }
    let topology = subject.topology(
      name: "soak", program: try BinaryLocator.find("TestNodes"), environment: environment,
      durability: options.durability, heartbeat: options.isCalm ? .seconds(10) : .milliseconds(500))
    let running: RunningTopology
    do {
      running = try await RunningTopology(topology, in: directory)
    } catch {
      directory.remove()
      throw error
    }
    let load = subject.load(running.client, options.durability, seed: generator.next())
    var outcome = SoakOutcome()
    do {
      try await drive(running, load, faults: faults, switchFile, &outcome, &generator)
    } catch {
      outcome.violations.append("\(error)")
    }
    outcome.violations += await running.stop()
    if outcome.violations.isEmpty { load.inspect(running.directories, &outcome) }
    let isBad = !outcome.violations.isEmpty
    if isBad { outcome.directory = directory.path }
    await running.finish(keeping: isBad)
    return outcome
  }

  private func drive(
    _ running: RunningTopology, _ load: any SoakLoad, faults: Int, _ switchFile: String,
    _ outcome: inout SoakOutcome, _ generator: inout SplitMix64
  ) async throws {
    var log = LogReader(directory: running.directories.logs)
    let injector = FaultInjector(running.client, subject)
    var seen = FaultCounts()
    func readLog() {
      for entry in log.next() {
        seen.take(entry)
        outcome.meetings.take(entry)
      }
    }
    defer {
      readLog()
      outcome.counts = injector.counts
      outcome.counts += seen
    }
    try await running.waitUntilRunning()
    let loading = Task { try await load.run() }
    do {
      if options.isCalm {
        try await Task.sleep(for: Self.calmTime)
      } else {
        try await injector.run(using: &generator) {
          readLog()
          return injector.counts.total + seen.total >= faults
            || deadline.map { ContinuousClock.now >= $0 } ?? false
        }
      }
    } catch {
      load.stop()
      _ = await loading.result
      throw error
    }
    FileSystem.removeTree(switchFile)
    load.stop()
    try await loading.value
    try await load.settle(&outcome)
  }
}
