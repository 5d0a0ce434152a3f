import NumberMachines
import PipeClient
import PipeRuntime
import PipeSupervision
import Soak
import TestTraits
import Testing

@Suite("The parts of the soak test", .timed)
struct SoakPartsTests {
  @Test(
    "A tally of received numbers distinguishes skipped numbers from repeated numbers",
    arguments: [
      ([1, 2, 3], 0, 0, nil),
      ([1, 3, 4], 1, 0, "number 3 came where 2 was expected"),
      ([1, 2, 2, 3], 0, 1, "number 2 came where 3 was expected"),
      ([1, 3, 2, 4], 1, 1, "number 3 came where 2 was expected"),
      ([2], 1, 0, "number 2 came where 1 was expected"),
    ] as [([Int], Int, Int, String?)])
  func tally(numbers: [Int], skipped: Int, late: Int, error: String?) {
    let tallies = numbers.reduce(Tallies()) { $0.adding($1, of: "a") }
    #expect(tallies.total == numbers.count)
    #expect(tallies.routes["a"]?.skipped == skipped)
    #expect(tallies.routes["a"]?.late == late)
    #expect(tallies.routes["a"]?.firstError == error)
  }

  /// Returns a plan of a shape, which is the same for the same seed.
  private static func plan(_ shape: SoakPlan.Shape, seed: UInt64) -> SoakPlan {
    var generator = SplitMix64(seed: seed)
    return SoakPlan(shape, using: &generator)
  }

  @Test("Every plan is a topology of five to twelve nodes", arguments: SoakPlan.Shape.allCases)
  func plans(shape: SoakPlan.Shape) async throws {
    for seed in UInt64(0)..<20 {
      // Lets other tests use this thread.
      await Task.yield()
      let plan = Self.plan(shape, seed: seed)
      #expect(plan == Self.plan(shape, seed: seed))
      #expect((5...12).contains(plan.nodes.count))
      let topology = plan.topology(
        name: "soak", program: "TestNodes", environment: ["A": "b%0.1"], durability: .volatile,
        heartbeat: .seconds(1))
      let read = try TopologyReader.read(text: topology.yaml.utf8, file: "soak.yaml")
      #expect(read.topology == topology)
      for node in plan.nodes {
        #expect(plan.pipes.contains { $0.from == node.name } == (node.kind != .sink))
        #expect(plan.pipes.contains { $0.to == node.name } == (node.kind != .source))
      }
    }
  }

  @Test("The reference model delivers each number to each sink along every route", arguments: 0..<8)
  func reference(seed: Int) throws {
    let plan = Self.plan(.diamond, seed: UInt64(seed))
    let source = try #require(plan.sources.first)
    let reference = try Reference(
      plan, inputs: [source.name: [.go(until: 100), .order(n: 1), .order(n: 2)]])
    let sink = try #require(plan.nodes.last)
    let members = reference.nodes[sink.name]?.state.caseMembers
    let tallies = try #require(members?["tallies"]).decode(Tallies.self)
    #expect(!tallies.routes.isEmpty)
    for tally in tallies.routes.values {
      #expect(tally.firstError == nil)
      #expect(tally.count == tally.last)
    }
    if !plan.nodes.contains(where: { $0.kind == .filter }) {
      #expect(tallies.routes.values.allSatisfy { $0.count == 100 })
    }
    let orders = reference.nodes[source.name]?.state.caseMembers?["orders"]
    #expect(try #require(orders).decode(Tallies.self).total == 2)
  }

  @Test("Failpoint hits are counted from a node's log")
  func counts() {
    var counts = FaultCounts()
    func add(_ stream: LogStream, _ text: String) {
      counts.add(
        LogEntry(node: "a", time: Timestamp(milliseconds: 0), stream: stream, text: text))
    }
    add(.err, "failpoint record.after: crash (hit 3)")
    add(.err, "failpoint record.after: crash (hit 12)")
    add(.err, "failpoint send.after: delay:5ms (hit 1)")
    add(.out, "failpoint send.after: crash (hit 1)")
    add(.err, "failpoint nowhere: crash (hit 1)")
    add(.note, "\(NodeReport.killing(reason: "hung"))")
    add(.note, "\(NodeReport.adopted(incarnation: 2))")
    add(.note, "\(NodeReport.replacing(reason: "\(ProcessRecord.Difference.environment)"))")
    add(
      .err,
      "warning: 'b' does not respond; reconnecting; 'b' is stopped or overloaded, or another program has "
        + "connected to 'ipc:///b.in' with the same routing id, 'pipe/p' (1 so far)")
    #expect(counts.adopted == 1 && counts.replaced == 1 && counts.reclaimedIDs == 1)
    #expect(counts.failpoints == [.recordAfter: ["crash": 2], .sendAfter: ["delay": 1]])
    #expect(counts.foundHung == 1)
    #expect(counts.total == 3)
    let missing = counts.missing(of: FaultChoice(.pipes, .process, fillsDisk: true))
    #expect(missing.contains("send.before"))
    #expect(!missing.contains("send.after"))
    #expect(!missing.contains("yes.after"))
    let together = counts.missing(of: FaultChoice(.composites, .process, fillsDisk: true))
    #expect(together.contains("yes.after"))
    #expect(!together.contains("send.before"))
    #expect(
      counts.missing(of: FaultChoice(.pipes, .volatile, fillsDisk: true))
        .allSatisfy { !$0.contains(".") })
  }

  @Test("Every kind of fault is likely to occur, and a kind that never occurred is reported")
  func choice() {
    for topic in SoakTopic.allCases {
      let choice = FaultChoice(topic, .process, fillsDisk: true)
      var most: [FaultKind: Int] = [:]
      for round in 0..<10 {
        let weighted = choice.weighted(round: round)
        #expect(Set(weighted) == Set(choice.kinds))
        for kind in choice.kinds {
          most[kind] = max(most[kind] ?? 0, weighted.count { $0 == kind })
        }
      }
      // A fault with one chance in a hundred would be reported missing too easily.
      #expect(most.values.allSatisfy { $0 > 1 })
      var counts = FaultCounts()
      #expect(counts.missing(of: choice).contains(FaultKind.fillDisk.rawValue))
      counts.kinds[.fillDisk] = 1
      #expect(!counts.missing(of: choice).contains(FaultKind.fillDisk.rawValue))
    }
    let kinds = FaultChoice(.pipes, .process, fillsDisk: false).kinds
    #expect(!kinds.contains(.fillDisk))
    #expect(!kinds.contains(.namesakeOfCoordinator))
  }

  @Test(
    "The failpoints of every round are well formed, and each failpoint is the focus of a round",
    arguments: SoakTopic.allCases)
  func rates(topic: SoakTopic) throws {
    var most: [Failpoint: Double] = [:]
    var least: [Failpoint: Double] = [:]
    for round in 0..<topic.failpointsToCover.count {
      var sums: [Failpoint: Double] = [:]
      for rule in try FailpointRule.parse(list: FailpointRates.text(of: topic, round: round)) {
        guard case .probability(let probability) = rule.trigger else {
          Issue.record("\(rule) has no probability")
          continue
        }
        sums[rule.point, default: 0] += probability
      }
      #expect(Set(sums.keys).isSuperset(of: topic.failpointsToCover))
      for (point, sum) in sums {
        most[point] = max(most[point] ?? 0, sum)
        least[point] = min(least[point] ?? 1, sum)
      }
    }
    for point in topic.failpointsToCover { #expect(most[point]! > 2 * least[point]!) }
  }
}
