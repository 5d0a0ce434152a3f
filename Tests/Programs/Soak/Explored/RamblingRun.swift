import PipeRuntime
import PipeRuntimeTestKit
import Synchronization

/// Runs a rambling topology under the real orchestrator, sends it events, and records its nodes'
/// steps.
struct RamblingRun {
  private let topology: TopologyHarness
  private let nodes: [RamblingPlan.Node]
  private let collector = StepCollector()

  /// The number of events to send.
  private static let requests = 60
  /// The longest wait for an answer. A node with a full pipe may never answer.
  private static let answerTimeout: Duration = .milliseconds(150)
  /// The number of unanswered events after which no more are sent.
  private static let unansweredLimit = 4
  /// The number of events between two reads of the dead letters. A node without a journal keeps
  /// only the latest ones.
  private static let deadLetterInterval = 6
  private static let limit: Duration = .seconds(60)

  /// Collects the steps during the run.
  private final class StepCollector: Sendable {
    private let trace = Mutex(RunTrace())
    private let readTask = Mutex<Task<Void, Never>?>(nil)

    var current: RunTrace { trace.withLock { $0 } }

    func read(_ messages: AsyncStream<FeedMessage>) {
      let task = Task { [self] in
        for await case .step(let step) in messages { trace.withLock { $0.add(step) } }
      }
      readTask.withLock { $0 = task }
    }

    func add(_ deadLetters: [DeadLetter], of node: String) {
      trace.withLock { $0.add(deadLetters, of: node) }
    }

    func stop() { readTask.withLock { $0 }?.cancel() }
  }

  private init(_ topology: TopologyHarness, _ plan: RamblingPlan) {
    self.topology = topology
    nodes = plan.nodes
  }

  /// Runs a topology, and stops it.
  static func run(
    _ plan: RamblingPlan, _ topology: Topology, using generator: inout SplitMix64
  ) async throws -> RunTrace {
    var options = TopologyHarness.Options()
    options.recordedNodes = []
    var own = SplitMix64(seed: generator.next())
    return try await withTopology(topology, options: options) { harness in
      try await RamblingRun(harness, plan).trace(using: &own)
    }
  }

  private func trace(using generator: inout SplitMix64) async throws -> RunTrace {
    collector.read(try await topology.client.steps(of: nodes.map(\.name)))
    defer { collector.stop() }
    try await awaitFirstSteps()
    var silent = 0
    for number in 0..<Self.requests where silent < Self.unansweredLimit {
      let node = nodes.randomElement(using: &generator)!
      let event = node.externalEvents.randomElement(using: &generator)!
      if try await !send(event, to: node.name) { silent += 1 }
      if number % Self.deadLetterInterval == 0 { try await readDeadLetters() }
    }
    try await awaitLastSteps()
    // The trace ends here: steps reported later may follow dead letters that the requests below miss.
    var trace = collector.current
    for node in nodes {
      trace.add(try await topology.client.deadLetters(of: node.name), of: node.name)
    }
    return trace
  }

  /// - Returns: Whether the event was answered.
  private func send(_ event: String, to node: String) async throws -> Bool {
    do {
      _ = try await topology.client.send(node, json: .string(event), timeout: Self.answerTimeout)
      return true
    } catch TopologyClientError.unknownOutcome, TopologyClientError.busy {
      return false
    }
  }

  /// Waits until the feeds of all nodes have delivered a step. No node leaves its initial state
  /// before that.
  private func awaitFirstSteps() async throws {
    let haveBegun: Bool? = try await poll(every: .milliseconds(5), within: Self.limit) {
      let silent = nodes.filter { !collector.current.hasBegun($0.name) }
      for node in silent { _ = try await send(RamblingPlan.tick, to: node.name) }
      return silent.isEmpty ? true : nil
    }
    guard haveBegun != nil else { throw SoakFailure("the feeds do not tell of the first steps") }
  }

  /// Waits until all steps so far were delivered, or reported as skipped.
  private func awaitLastSteps() async throws {
    let directory = try await topology.client.directory()
    let areReported: Bool? = try await poll(every: .milliseconds(5), within: Self.limit) {
      let current = collector.current
      return nodes.allSatisfy { node in
        current.version(of: node.name) >= directory[node: node.name]?.status?.version ?? 0
      } ? true : nil
    }
    guard areReported != nil else { throw SoakFailure("the feeds do not tell of all steps") }
  }

  private func readDeadLetters() async throws {
    for node in nodes {
      collector.add(try await topology.client.deadLetters(of: node.name), of: node.name)
    }
  }
}
