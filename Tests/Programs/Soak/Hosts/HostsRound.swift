import NumberMachines
import PipeRuntime
import PipeRuntimeTestKit

/// Runs one topology on hosts, injects faults, and collects the findings.
struct HostsRound {
  let plan: HostsPlan
  let isCalm: Bool
  /// The time at which faults end at the latest.
  let deadline: ContinuousClock.Instant?

  static let topology = "soak"
  /// The factor by which failpoints act less often than in the other topics, where restarts take
  /// less time.
  private static let rateDivisor = 30
  private static let calmTime: Duration = .seconds(1)
  /// The maximum time for one request. During a part of this time, hosts may have no power, and
  /// Slurm no controller.
  private static let patience: Duration = .seconds(300)
  /// The number of consecutive unchanged polls after which the topology is considered not
  /// recovered.
  private static let unchangedLimit = 600

  /// Runs the round.
  /// - Returns: The findings, and the counts of the faults that have struck.
  func run(
    using generator: inout SplitMix64
  ) async throws -> (SoakOutcome, HostFaultCounts) {
    let cluster = try await HostCluster()
    var outcome = SoakOutcome()
    var counts = HostFaultCounts()
    do {
      (outcome, counts) = try await run(on: cluster, using: &generator)
    } catch {
      _ = await cluster.end()
      throw error
    }
    outcome.violations += await cluster.end()
    return (outcome, counts)
  }

  private func run(
    on cluster: HostCluster, using generator: inout SplitMix64
  ) async throws -> (SoakOutcome, HostFaultCounts) {
    let directory = try TestDirectory()
    let failpoints = FailpointSwitch(in: directory)
    let (lifetimes, journals) = (directory.path + "/lives", directory.path + "/shared")
    for path in [lifetimes, journals] { try FileSystem.makeDirectories(path) }
    let topology = plan.topology(
      name: Self.topology, program: try BinaryLocator.find("TestNodes"),
      environment: [
        FailpointCounter.rulesVariable: FailpointRates.text(
          of: plan.subject.topic, round: plan.focus, rateDivisor: Self.rateDivisor),
        FailpointCounter.seedVariable: String(generator.next()),
        FailpointCounter.switchVariable: failpoints.path,
        LifetimeRecorder.variable: lifetimes,
      ])
    let running = try await RunningTopology(
      topology, in: directory, hasDisk: false,
      at: OrchestratorSite(
        prefix: cluster.prefixOfOrchestrator, environment: cluster.environment,
        deployment: plan.deployment(journals: journals), patience: Self.patience))
    let load = plan.subject.load(running.client, .process, seed: generator.next())
    let injector = HostInjector(running, plan, cluster)
    var outcome = SoakOutcome()
    do {
      try await runLoad(running, load, injector, failpoints, &outcome)
    } catch {
      outcome.violations.append("\(error)")
    }
    let hasNoViolations = outcome.violations.isEmpty
    // A killed slurmctld reuses the numbers of job steps of its last seconds. When a step ends,
    // Slurm kills the processes with the same step number on the host: see docs/CLUSTERS.md.
    outcome.violations += await running.stop(
      toleratesKills: injector.counts.kinds[.controller] != nil)
    if hasNoViolations { load.inspect(running.directories, &outcome) }
    outcome.violations += LifetimeCheck(LifetimeCheck.lifetimes(in: lifetimes)).violations
    outcome.violations += try await cluster.otherJobs().map { "left behind: job \($0)" }
    let hasViolations = !outcome.violations.isEmpty
    if hasViolations {
      outcome.directory = directory.path
      cluster.keepOutput(in: directory)
    }
    await running.finish(keeping: hasViolations)
    return (outcome, injector.counts)
  }

  private func runLoad(
    _ running: RunningTopology, _ load: any SoakLoad, _ injector: HostInjector,
    _ failpoints: FailpointSwitch, _ outcome: inout SoakOutcome
  ) async throws {
    defer {
      running.log.read()
      outcome.counts += running.log.counts
      outcome.meetings += running.log.meetings
    }
    try await waitUntilRunning(running)
    if !isCalm { try failpoints.arm() }
    let loadTask = Task { try await load.run() }
    do {
      if isCalm { try await Task.sleep(for: Self.calmTime) }
      try await injector.run { deadline.map { ContinuousClock.now >= $0 } ?? false }
      failpoints.disarm()
      try await waitUntilRunning(running)
    } catch {
      failpoints.disarm()
      load.stop()
      _ = await loadTask.result
      throw error
    }
    load.stop()
    try await loadTask.value
    try await load.verify(&outcome)
    if outcome.arrived == 0 { outcome.violations.append("no number has arrived") }
  }

  /// A summary of a directory, which changes when nodes make progress.
  private struct DirectorySnapshot: Equatable {
    var nodes: [String]
    var isRunning: Bool

    init(_ directory: TopologyDirectory) {
      nodes = directory.nodes.map {
        "\($0.name): \($0.phase), start \($0.incarnation)"
          + ($0.hostName.map { " on \($0)" } ?? "") + ($0.reason.map { ", \($0)" } ?? "")
      }
      isRunning = directory.isRunning
    }
  }

  /// Waits until all nodes are running at the same time. Fails if there is no progress.
  private func waitUntilRunning(_ running: RunningTopology) async throws {
    var last: DirectorySnapshot?
    var unchanged = 0
    while true {
      let snapshot = DirectorySnapshot(try await running.client.directory(fresh: false))
      if snapshot.isRunning { return }
      unchanged = snapshot == last ? unchanged + 1 : 0
      last = snapshot
      guard unchanged < Self.unchangedLimit else {
        throw SoakFailure(
          "all is healed, and nothing changes any more:\n    "
            + snapshot.nodes.joined(separator: "\n    "))
      }
      try await Task.sleep(for: .milliseconds(200))
    }
  }
}
