import PipeMachines
import PipeWire
import Testing

/// Thousands of random runs, each with crashes, restarts and lost connections at any point.
@Suite("Synchronized events under faults")
struct TransactionSimulationTests {
  /// Connections as they are, or links that lose, repeat and reorder what they carry.
  static let settings = [
    Simulation.Settings(isWild: false), Simulation.Settings(isWild: true),
  ]

  /// What the runs were made of, so that a test can say that its faults hit.
  struct Tally {
    var commits = 0
    var aborts = 0
    var faults = 0
    var inDoubtParticipants = 0
    var inDoubtCoordinators = 0
    var queries = 0
    var overdue = 0
  }

  @Test(
    "all or none take an event, in one order, answers are true, and nothing stays locked",
    arguments: settings, [0, 1, 2, 3])
  func soak(settings: Simulation.Settings, batch: UInt64) async {
    var tally = Tally()
    for seed in batch * 375..<(batch + 1) * 375 {
      // Others wait for this thread.
      await Task.yield()
      var simulation = Simulation(seed: seed, settings: settings)
      simulation.run()
      let violations = simulation.violations() + simulation.probe()
      #expect(violations == [], "seed \(seed)")
      if !violations.isEmpty { return }
      simulation.count(into: &tally)
    }
    #expect(tally.commits > 1_000)
    #expect(tally.aborts > 1_000)
    #expect(tally.faults > 5_000)
    #expect(tally.inDoubtParticipants > 50)
    #expect(tally.inDoubtCoordinators > 20)
    #expect(tally.queries > 50)
    #expect(tally.overdue > 20)
  }

  @Test("without faults nothing is in doubt, and every answer but a refusal is a commit")
  func peace() async {
    for seed in UInt64(0)..<100 {
      await Task.yield()
      var simulation = Simulation(
        seed: seed, settings: Simulation.Settings(isWild: false, hasFaults: false))
      simulation.run()
      #expect(simulation.violations() == [], "seed \(seed)")
      let inDoubt = simulation.participants.reduce(0) { $0 + $1.inDoubt }
      #expect(inDoubt == 0)
    }
  }
}

extension Simulation {
  /// After the end, every composite takes an event again.
  mutating func probe() -> [String] {
    for composite in Self.composites where !takesAnEvent(composite) {
      return ["\(composite.name) takes no event any more"]
    }
    return violations()
  }

  /// Timers fire at random, also early, so that one attempt may be given up.
  private mutating func takesAnEvent(_ composite: Composite) -> Bool {
    for _ in 0..<20 {
      let id = ask(composite, .try)
      settle()
      if case .atomic(.committed)? = asked[id]?.replies.last { return true }
    }
    return false
  }

  func count(into tally: inout TransactionSimulationTests.Tally) {
    for one in asked.values {
      if case .atomic(.committed)? = one.replies.last { tally.commits += 1 }
    }
    tally.faults += faultCount
    tally.aborts += coordinators.reduce(0) { $0 + $1.aborts }
    tally.inDoubtCoordinators += coordinators.reduce(0) { $0 + $1.inDoubt }
    tally.inDoubtParticipants += participants.reduce(0) { $0 + $1.inDoubt }
    tally.queries += queriesAnswered
    tally.overdue += participants.reduce(0) { $0 + $1.overdueCount }
  }
}
