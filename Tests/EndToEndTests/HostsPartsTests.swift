import Glibc
import PipeClient
import PipeRuntime
import PipeSupervision
import Soak
import TestTraits
import Testing

@Suite("The parts of the soak test on several hosts", .timed)
struct HostsPartsTests {
  private static let seeds = UInt64(0)..<60

  private static func plan(seed: UInt64, faults: Int = 15) -> HostsPlan {
    var generator = SplitMix64(seed: seed)
    return HostsPlan(faults: faults, using: &generator)
  }

  @Test(
    "Every plan's topology fits its deployment, and the same seed gives the same plan")
  func plans() async throws {
    for seed in Self.seeds {
      // Lets other tests use this thread.
      await Task.yield()
      let plan = Self.plan(seed: seed)
      let again = Self.plan(seed: seed)
      #expect(plan.details == again.details && plan.summary == again.summary)
      let topology = plan.topology(name: "soak", program: "TestNodes", environment: ["A": "b"])
      let (read, source) = try TopologyReader.read(text: topology.yaml.utf8, file: "soak.yaml")
      #expect(read == topology)
      let text = plan.deployment(journals: "/shared")
      let deployment = try DeploymentFile.examine(
        text: Array(text.utf8), file: "hosts.yaml", variables: TopologyVariables([:]))
      let found = PlacementChecker.check(read, source: source, in: deployment).map(\.description)
      #expect(found.isEmpty, "\(text)\n\(topology.yaml)")
      let isolatedNode = try #require(read.nodes.first { $0.name == HostsPlan.isolatedNode })
      #expect(isolatedNode.hostLossPolicy == .move && isolatedNode.durability == .volatile)
      #expect(read.nodes.allSatisfy { $0.durability != .volatile || $0.name == isolatedNode.name })
    }
  }

  @Test("Every planned fault ends, and a plan with long host outages never kills the orchestrator")
  func faults() {
    for seed in Self.seeds {
      let plan = Self.plan(seed: seed, faults: 60)
      #expect(plan.faults.count == 60)
      let long = plan.faults.filter { $0.kind.silencesHost && $0.time > HostsPlan.silenceLimit }
      if plan.faults.contains(where: { $0.kind == .orchestrator }) { #expect(long.isEmpty) }
      for fault in plan.faults {
        #expect((0...20_000).contains(fault.time))
        #expect(plan.nodePlacements[fault.node]?.place != nil)
        // The only fault of the orchestrator's host is a partition.
        #expect(fault.host != 0 || fault.kind == .partition)
      }
    }
  }

  @Test("Together, random plans contain every kind of fault, topology and node placement")
  func variety() {
    let plans = Self.seeds.map { Self.plan(seed: $0) }
    #expect(
      Set(plans.flatMap(\.faults).map(\.kind)) == Set(HostFaultKind.allCases))
    #expect(plans.contains { if case .pipes = $0.base { true } else { false } })
    for hasModels in [false, true] {
      #expect(
        plans.contains {
          if case .meetings(let plan) = $0.base { plan.models.isEmpty != hasModels } else { false }
        })
    }
    let nodePlacements = plans.flatMap { $0.nodePlacements.values }
    for durability in Durability.allCases {
      for moves in [false, true] {
        // A node with durability 'process' must not move, because its records are in memory of its
        // host. A node without a journal must not wait, because it would lose its state.
        let isPossible = moves ? durability != .process : durability != .volatile
        #expect(
          nodePlacements.contains { $0.moves == moves && $0.durability == durability } == isPossible
        )
      }
    }
    #expect(nodePlacements.contains { $0.place == nil })
    #expect(plans.contains { $0.hasLongFaults } && plans.contains { !$0.hasLongFaults })
  }

  @Test("Two processes of one node are a violation only if they run at the same time")
  func lifetimes() {
    func lifetime(_ node: String, _ first: Int, _ last: Int) -> LifetimeCheck.Lifetime {
      LifetimeCheck.Lifetime(node: node, first: first, last: last)
    }
    let sound = [
      lifetime("a", 1, 5), lifetime("b", 2, 9), lifetime("a", 6, 6), lifetime("a", 7, 12),
    ]
    #expect(LifetimeCheck(sound).violations.isEmpty)
    #expect(LifetimeCheck(sound).count == 4)
    for second in [
      lifetime("a", 5, 6), lifetime("a", 2, 3), lifetime("a", 0, 1), lifetime("a", 0, 20),
    ] {
      #expect(!LifetimeCheck(sound + [second]).violations.isEmpty, "\(second)")
    }
    // The overlap is found even behind a shorter process.
    let three = [lifetime("a", 1, 100), lifetime("a", 2, 3), lifetime("a", 50, 60)]
    #expect(LifetimeCheck(three).violations.count == 2)
  }

  @Test("Missing prerequisites for hosts are listed")
  func missingRequirements() throws {
    #expect(HostCluster.missingRequirements(isRoot: true) { _ in true } == nil)
    let missing = try #require(
      HostCluster.missingRequirements(isRoot: false) {
        !$0.hasSuffix("slurmctld") && !$0.hasPrefix("/sys")
      })
    #expect(
      missing.hasPrefix(
        "hosts are namespaces of this machine with Slurm on them, for which there is no root, no "
          + "cgroups of version 1, no /usr/sbin/slurmctld; "), "\(missing)")
  }

  @Test("In a soak test on several hosts, a kill is not a violation, but a crash is")
  func ends() {
    for signal in [SIGKILL, SIGTERM, SIGABRT] {
      for isOnHosts in [true, false] {
        var check = UnexpectedExitChecker(toleratesKills: isOnHosts)
        for report in [NodeReport.spawned(pid: 7), .exited(.signalled(number: signal))] {
          check.add(
            LogEntry(
              node: "a", time: Timestamp(milliseconds: 0), stream: .note, text: "\(report)"))
        }
        #expect(check.violations.isEmpty == (isOnHosts && signal != SIGABRT), "\(signal)")
      }
    }
  }
}
