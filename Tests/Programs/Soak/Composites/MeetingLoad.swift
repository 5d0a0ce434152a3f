import NumberMachines
import PipeRuntime
import PipeRuntimeTestKit
import Synchronization

extension MeetingPlan: SoakSubject {
  var topic: SoakTopic { models.isEmpty ? .composites : .models }

  var details: String {
    composites.map { "\($0.name)(\($0.members.joined(separator: " ")))" }.joined(separator: " ")
      + (models.isEmpty ? "" : ", models are \(models.sorted().joined(separator: " "))")
  }

  /// Returns the number of meetings that members have reported.
  func progress(_ directory: TopologyDirectory) -> Int {
    members.reduce(0) { sum, member in
      let state = directory[node: member]?.status?.state
      guard case .array(let met)? = state?.caseMembers?["record"]?["met"] else { return sum }
      return sum + met.count
    }
  }

  func load(_ client: ReattachingClient, _ durability: Durability, seed: UInt64) -> any SoakLoad {
    MeetingLoad(client, self, durability, seed: seed)
  }
}

/// Requests meetings, makes bells request meetings, and sends numbers to members. At the end,
/// compares the members' states with the answers that callers received.
final class MeetingLoad: SoakLoad {
  private let client: ReattachingClient
  private let plan: MeetingPlan
  private let requesters: MeetingRequesters
  private let feeder: Feeder
  private let bellFeeder: Feeder
  private let seed: UInt64
  private let durability: Durability
  /// For each source, the number up to which it should send.
  private let until = Mutex<[String: Int]>([:])

  /// The longest time without progress after the last fault.
  private static let verifyLimit: Duration = .seconds(60)
  /// The number of unchanged polls after which no more changes are expected. In volatile
  /// topologies, lost events never arrive, so the number is smaller.
  private var unchangedLimit: Int { durability == .volatile ? 20 : 300 }
  /// The maximum number of polls. Polling keeps the processes busy, so endless changes would not
  /// count as a stall.
  private static let pollCount = 1_200
  /// The caller of the meetings at the end. No member refuses these meetings, so they must take
  /// place.
  private static let last = NumberMember.bell + "Last"

  init(_ client: ReattachingClient, _ plan: MeetingPlan, _ durability: Durability, seed: UInt64) {
    self.client = client
    self.plan = plan
    self.seed = seed
    self.durability = durability
    requesters = MeetingRequesters(client, plan)
    feeder = Feeder(client, [MeetingPlan.source], durability)
    bellFeeder = Feeder(client, plan.bells.map(\.source), durability, batchSize: 10)
  }

  func run() async throws {
    var generator = SplitMix64(seed: seed)
    async let fed = feeder.run()
    async let rung = bellFeeder.run()
    try await requesters.run(using: &generator)
    let inputs = try await fed.merging(try await rung) { left, _ in left }
    until.withLock { until in
      for (source, events) in inputs {
        for case .go(let last) in events { until[source] = last }
      }
    }
  }

  func stop() {
    requesters.stop()
    feeder.stop()
    bellFeeder.stop()
  }

  func verify(_ outcome: inout SoakOutcome) async throws {
    let first = try await waitForRest()
    // Request another meeting of each composite, to check that no member is still locked.
    for (index, composite) in plan.composites.enumerated() {
      let end = try await requesters.requestMeeting(
        composite, Self.last, index + 1, .await(.seconds(20)), .seconds(20))
      if case .committed = end { continue }
      outcome.violations.append("\(composite.name) takes no event any more: \(end)")
    }
    let lost = try await requesters.requeryOutcomes()
    let view = try await waitForRest(despite: Set(first.unfinished))
    let coordinatorAnswers = requesters.coordinatorAnswers
    let check = MeetingCheck(
      plan, met: view.met, attempts: requesters.attempts, rung: view.sent,
      deadLetters: view.deadLetters)
    outcome.violations += check.violations + coordinatorAnswers.contradictions + lost
    outcome.violations += view.unfinished + view.differences
    outcome.arrived = view.arrived
    outcome.meetings.add(requesters.attempts)
    outcome.meetings.unknownTaken = check.unknown.taken
    outcome.meetings.unknownNotTaken = check.unknown.notTaken
    outcome.meetings.bellMeetingCount = plan.bells.reduce(0) { $0 + (view.sent[$1.source] ?? 0) }
    outcome.meetings.queryCount = coordinatorAnswers.answered
  }

  /// Waits until no event is in flight, and returns the final view.
  /// - Parameter known: The unfinished items of an earlier wait, which are ignored.
  private func waitForRest(despite known: Set<String> = []) async throws -> MeetingView {
    var last: MeetingView?
    var (good, same, pollCount) = (0, 0, 0)
    _ = try await poll(every: .milliseconds(100), within: Self.verifyLimit) {
      let view = MeetingView(
        plan, until: until.withLock { $0 }, try await client.directory())
      // Wait for two equal views, because an event between two nodes is visible at neither of them.
      good = view == last && known.isSuperset(of: view.unfinished) ? good + 1 : 0
      same = view == last ? same + 1 : 0
      last = view
      pollCount += 1
      return good == 2 || same == unchangedLimit || pollCount == Self.pollCount ? true : nil
    }
    guard let last else { throw SoakFailure("no node has reported its state") }
    return last
  }

  /// Checks that the journal of no member contains a prepared event.
  func inspect(_ directories: RuntimeDirectories, _ outcome: inout SoakOutcome) {
    let journalPaths = JournalPaths(in: directories)
    for node in plan.members {
      do {
        let journal = try JournalReader(journalPaths[node], node: node)
        guard let prepared = try journal.snapshot(limit: 1).prepared else { continue }
        outcome.violations.append(
          "\(node) was stopped with a promise for transaction \(prepared.transaction)")
      } catch {
        outcome.violations.append("\(error)")
      }
    }
  }
}
