import PipeMachines
import PipeWire
import Testing

/// Runs thousands of random schedules with crashes, restarts and lost connections at any point.
@Suite("Synchronized events under faults")
struct TransactionSimulationTests {
  /// Links that behave like connections, and links that lose, repeat and reorder messages.
  static let settings = [
    Simulation.Settings(isUnreliable: false), Simulation.Settings(isUnreliable: true),
  ]

  /// Counters of the runs, which show that the faults had effects.
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
    "Under faults, synchronized events stay atomic and ordered, and leave no locks",
    arguments: settings, [0, 1, 2, 3])
  func soak(settings: Simulation.Settings, batch: UInt64) async {
    var tally = Tally()
    for seed in batch * 375..<(batch + 1) * 375 {
      // Lets other tests use this thread.
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

  @Test("Without faults, no participant is in doubt, and every reply is a commit or a refusal")
  func peace() async {
    for seed in UInt64(0)..<100 {
      await Task.yield()
      var simulation = Simulation(
        seed: seed, settings: Simulation.Settings(isUnreliable: false, hasFaults: false))
      simulation.run()
      #expect(simulation.violations() == [], "seed \(seed)")
      let inDoubt = simulation.participants.reduce(0) { $0 + $1.inDoubt }
      #expect(inDoubt == 0)
    }
  }
}

extension Simulation {
  /// Checks that every composite accepts an event after the end of a run.
  mutating func probe() -> [String] {
    for composite in Self.composites where !takesAnEvent(composite) {
      return ["\(composite.name) takes no event any more"]
    }
    return violations()
  }

  /// Returns whether the composite accepts an event. Repeats the request, because timers fire at
  /// random and may abort an attempt.
  private mutating func takesAnEvent(_ composite: Composite) -> Bool {
    for _ in 0..<20 {
      let id = ask(composite, .try)
      settle()
      if case .atomic(.committed)? = simulatedRequests[id]?.replies.last { return true }
    }
    return false
  }

  func count(into tally: inout TransactionSimulationTests.Tally) {
    for one in simulatedRequests.values {
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
