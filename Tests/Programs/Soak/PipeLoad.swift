import NumberMachines
import PipeRuntime
import PipeRuntimeTestKit
import Synchronization

extension SoakPlan: SoakSubject {
  var summary: String { "\(shape.rawValue) of \(nodes.count) nodes" }
  var details: String { nodes.map { "\($0.name)" }.joined(separator: " ") }
  var topic: SoakTopic { .pipes }
  var faultTargets: [String] { nodes.map(\.name) }
  var hosts: [String: String] { [:] }
  var memberCoordinators: [MemberCoordinator] { [] }

  /// Returns the count of numbers that have arrived at sinks.
  func progress(_ directory: TopologyDirectory) -> Int {
    nodes.filter { $0.kind == .sink }
      .reduce(0) { $0 + Int(directory[node: $1.name]?.status?.version ?? 0) }
  }

  func load(_ client: ReattachingClient, _ durability: Durability, seed: UInt64) -> any SoakLoad {
    PipeLoad(client, self, durability)
  }
}

/// Makes the sources of a plan send numbers. At the end, compares the states of all nodes with the
/// expected states.
final class PipeLoad: SoakLoad {
  private let client: ReattachingClient
  private let plan: SoakPlan
  private let durability: Durability
  private let feeder: Feeder
  private let inputs = Mutex<[String: [NumberEvent]]>([:])

  /// The longest time without progress after the last fault.
  private static let verifyLimit: Duration = .seconds(60)
  /// The number of consecutive unchanged polls after which a topology with events in flight is
  /// considered stuck.
  private static let unchangedLimit = 300

  init(_ client: ReattachingClient, _ plan: SoakPlan, _ durability: Durability) {
    self.client = client
    self.plan = plan
    self.durability = durability
    feeder = Feeder(client, plan.sources.map(\.name), durability)
  }

  func run() async throws {
    let inputs = try await feeder.run()
    self.inputs.withLock { $0 = inputs }
  }

  func stop() { feeder.stop() }

  /// Waits until all numbers have arrived, or some are found to be missing.
  func verify(_ outcome: inout SoakOutcome) async throws {
    let reference = try Reference(plan, inputs: inputs.withLock { $0 })
    var last: Comparison?
    var good = 0
    var unchanged = 0
    _ = try await poll(every: .milliseconds(100), within: Self.verifyLimit) {
      let directory = try await client.directory()
      let comparison = Comparison(plan, reference, directory, durability)
      // Wait for two equal comparisons, because a repeated number would arrive after the others.
      good = comparison.isEqual && comparison.isQuiet ? good + 1 : 0
      unchanged = comparison == last ? unchanged + 1 : 0
      last = comparison
      // Count unchanged polls in addition to stall detection: polling alone keeps the processes
      // busy.
      let isStuck = comparison.isQuiet ? unchanged > 0 : unchanged >= Self.unchangedLimit
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

  func inspect(_ directories: RuntimeDirectories, _ outcome: inout SoakOutcome) {}
}
