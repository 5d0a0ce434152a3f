import PipeNode
import Testing

/// Runs thousands of random schedules of clients, a node and its journal, with books small enough
/// to overflow.
@Suite("A simulation of client requests")
struct RequestModelTests {
  /// Small limits, and one limit that never forgets a client.
  static let limits = [
    RequestRegistry.Limits(numbers: 12, byteCount: 30),
    RequestRegistry.Limits(numbers: 24, byteCount: 8),
    RequestRegistry.Limits(numbers: 100_000, byteCount: 30),
  ]

  @Test(
    "No schedule applies an event twice, and each reply matches its event's outcome",
    arguments: [0, 1, 2], [0, 1, 2, 3])
  func soak(limits index: Int, batch: UInt64) async {
    let limits = Self.limits[index]
    var tally = RequestModel.Tally()
    for seed in batch * 150..<(batch + 1) * 150 {
      // Lets other tests use this thread.
      await Task.yield()
      var model = RequestModel(seed: seed, limits: limits)
      model.run(steps: 600)
      #expect(model.violations == [], "seed \(seed)")
      if !model.violations.isEmpty { return }
      tally.applied += model.tally.applied
      tally.repeated += model.tally.repeated
      tally.forgotten += model.tally.forgotten
      tally.stateless += model.tally.stateless
      tally.kills += model.tally.kills
      tally.replacedClients += model.tally.replacedClients
      tally.full += model.tally.full
    }
    #expect(tally.applied > 1_000)
    #expect(tally.repeated > 2_000)
    #expect(tally.kills > 300)
    #expect(tally.replacedClients > 500)
    #expect(tally.stateless > 0)
    if limits.maximumNumberCount < 100 { #expect(tally.forgotten > 10) }
  }
}
