import PipeClient
import PipeRuntime
import PipeSupervision
import Soak
import TestTraits
import Testing

@Suite("The parts of the soak test of composites", .timed)
struct MeetingPartsTests {
  private static func plan(seed: UInt64) -> MeetingPlan {
    var generator = SplitMix64(seed: seed)
    return MeetingPlan(using: &generator)
  }

  @Test("A plan with models differs from a plan without models only in each composite's first node")
  func models() throws {
    for seed in UInt64(0)..<20 {
      var generator = SplitMix64(seed: seed)
      let plan = MeetingPlan(hasModels: true, using: &generator)
      let other = Self.plan(seed: seed)
      #expect(other.models.isEmpty)
      #expect(plan.composites == other.composites && plan.bells == other.bells)
      #expect(plan.composites.allSatisfy { plan.models.contains($0.members[0]) })
      let topology = plan.topology(
        name: "soak", program: "TestNodes", environment: [:], durability: .process,
        heartbeat: .seconds(1))
      #expect(
        Set(topology.nodes.filter { $0.machine == "NumberModel" }.map(\.name)) == plan.models)
    }
  }

  @Test("Every plan is a topology of composites, some with shared components and some without")
  func plans() async throws {
    for seed in UInt64(0)..<20 {
      // Lets other tests use this thread.
      await Task.yield()
      let plan = Self.plan(seed: seed)
      #expect(plan == Self.plan(seed: seed))
      #expect((5...10).contains(plan.members.count))
      #expect((2...3).contains(plan.coordinators.count))
      let topology = plan.topology(
        name: "soak", program: "TestNodes", environment: [:], durability: .process,
        heartbeat: .seconds(1))
      let read = try TopologyReader.read(text: topology.yaml.utf8, file: "soak.yaml")
      #expect(read.topology == topology)
      for left in plan.composites {
        for right in plan.composites where left != right {
          let share = !Set(left.members).isDisjoint(with: right.members)
          if share { #expect(left.coordinator == right.coordinator) }
        }
      }
      for coordinator in plan.coordinators {
        #expect(plan.bells.contains { plan[$0.composite]?.coordinator == coordinator })
      }
      #expect(plan.composites.filter { $0.coordinator == "c1" }.count >= 2)
    }
  }

  /// A plan, and a consistent record of synchronized events of its first two composites.
  private struct Sound {
    let plan = MeetingPartsTests.plan(seed: 1)
    var met: [String: [String]] = [:]
    var attempts: [Attempt] = []
    var rung: [String: Int] = [:]
    var deadLetters: [String: Int] = [:]
    private var versions: [String: UInt64] = [:]
    private var count: UInt64 = 0

    /// A member of both composites.
    var shared: String { plan.composites[0].members[1] }
    var first: String { plan.composites[0].members[0] }

    init() {
      for place in [0, 1, 0, 1] { meet(place) }
      attempts.append(Attempt("c1", "c1a:90", .refused))
      attempts.append(Attempt("c1", "c1a:91", .unknown))
    }

    mutating func meet(_ place: Int) {
      let composite = plan.composites[place]
      count += 1
      let meeting = "\(composite.name)a:\(count)"
      var moved: [String: UInt64] = [:]
      for member in composite.members {
        met[member, default: []].append(meeting)
        versions[member, default: 0] += 1
        moved[member] = versions[member]
      }
      attempts.append(
        Attempt(
          composite.name, meeting,
          .committed(TransactionID(epoch: 1, sequence: count), versions: moved)))
    }

    var check: MeetingCheck {
      MeetingCheck(plan, met: met, attempts: attempts, rung: rung, deadLetters: deadLetters)
    }
  }

  @Test("The check accepts replies that agree with the components' records")
  func sound() {
    let check = Sound().check
    #expect(check.violations == [])
    #expect(check.unknown == (0, 1))
  }

  @Test("A lost, repeated or reordered synchronized event is a violation")
  func torn() {
    var lost = Sound()
    lost.met[lost.first]?.removeLast()
    #expect(lost.check.violations.contains { $0.contains("received committed") })

    var twice = Sound()
    twice.met[twice.first]?.append("c1a:1")
    #expect(twice.check.violations.contains { $0.contains("2 times by \(twice.first)") })

    var turned = Sound()
    turned.met[turned.shared]?.reverse()
    #expect(turned.check.violations.contains { $0.contains("in different orders") })
    #expect(turned.check.violations.contains { $0.contains("after 1.") })
  }

  @Test(
    "A synchronized event is a violation if it follows a refusal, lacks a request, or is partial")
  func uncalledFor() {
    for (meeting, problem) in [
      ("c1a:90", "whose caller received refused"), ("c1a:91", "whose caller received unknown"),
      ("c1a:92", "nobody has asked for it"),
    ] {
      var sound = Sound()
      sound.met[sound.first]?.append(meeting)
      #expect(sound.check.violations.contains { $0.contains(problem) }, "\(meeting)")
    }
    // An event with an unknown reply is allowed if all members have taken it.
    var known = Sound()
    for member in known.plan.composites[0].members { known.met[member]?.append("c1a:91") }
    #expect(known.check.violations == [])
    #expect(known.check.unknown == (1, 0))
  }

  @Test("A lost, repeated or reordered event of a pipe into a composite is a violation")
  func bells() throws {
    let bell = try #require(Sound().plan.bells.first)
    let composite = try #require(Sound().plan[bell.composite])
    func rung(_ numbers: [Int], deadLetters: Int) -> [String] {
      var sound = Sound()
      sound.rung[bell.source] = 3
      sound.deadLetters[composite.coordinator] = deadLetters
      for member in composite.members {
        sound.met[member, default: []] += numbers.map { "\(bell.source):\($0)" }
      }
      return sound.check.violations
    }
    #expect(rung([1, 2, 3], deadLetters: 0) == [])
    #expect(rung([1, 2], deadLetters: 1).isEmpty == (bell.onRefused == .record))
    #expect(!rung([1, 2], deadLetters: 0).isEmpty)
    #expect(!rung([1, 3, 2], deadLetters: 0).isEmpty)
    #expect(!rung([1, 2, 3, 3], deadLetters: 0).isEmpty)
    #expect(!rung([1, 2, 3], deadLetters: 1).isEmpty)
  }

  @Test("A reply that contradicts an earlier reply about the same transaction is a violation")
  func coordinatorAnswers() {
    let number = TransactionID(epoch: 1, sequence: 1)
    var coordinatorAnswers = CoordinatorAnswers()
    coordinatorAnswers.record(number, of: "c1", .unknown(number))
    coordinatorAnswers.record(number, of: "c1", .committed(number, versions: ["m1": 1]))
    coordinatorAnswers.record(number, of: "c1", .committed(number, versions: ["m1": 1]))
    coordinatorAnswers.record(number, of: "c2", .unavailable("c2"))
    #expect(coordinatorAnswers.contradictions == [])
    coordinatorAnswers.record(number, of: "c1", .unavailable("c1"))
    #expect(coordinatorAnswers.contradictions.count == 1)
  }

  @Test("Transactions in doubt and their outcomes are counted from a node's log")
  func doubts() {
    var counts = MeetingCounts()
    let one = TransactionID(epoch: 3, sequence: 1)
    let two = TransactionID(epoch: 3, sequence: 2)
    for text in [
      "piperuntime: \(InDoubtReport.inDoubt(one, after: .restart, coordinator: "c"))",
      "piperuntime: \(InDoubtReport.inDoubt(two, after: .silence, coordinator: "c"))",
      "piperuntime: \(InDoubtReport.resolved(one, .committed))",
      "piperuntime: \(InDoubtReport.resolved(two, .aborted))",
      "piperuntime: 1 synchronized events are committed, but not acknowledged by all participants",
    ] {
      counts.add(
        LogEntry(node: "m1", time: Timestamp(milliseconds: 0), stream: .err, text: text))
    }
    #expect(
      counts.doubts == [
        "\(InDoubtReport.Cause.restart)": 1, "\(InDoubtReport.Cause.silence)": 1,
      ])
    #expect(counts.doubtsCommitted == 1)
    #expect(counts.doubtsAborted == 1)
    #expect(counts.recoveries == 1)
    #expect(counts.missing.contains("a doubt after a lost connection"))
    #expect(!counts.missing.contains("a doubt after a restart"))
  }
}
