import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("The numbers of events that effects produce")
struct EmittedNumberTests {
  @Test(
    "An effect's event numbers are unique, and the same when the effect runs again")
  func unique() {
    func numbers() -> [EmittedEventNames.Name] {
      var numbers = EmittedEventNames(processScope: 3)
      return (0..<200_000).map { _ in
        numbers.next(
          of: 1, EffectOrigin(version: 7), .oneOfMany, journal: UInt64(Int64.max), { _ in true })
      }
    }
    let first = numbers()
    #expect(Set(first).count == first.count)
    #expect(numbers() == first)
  }

  /// Returns an event of a step's effect, or of an event that a model has announced.
  private static func event(_ version: UInt64, _ count: UInt64, scope: UInt64 = 9) -> EmittedEvent {
    EmittedEvent(
      effect: version, index: .oneOfMany, reply: EffectReply { _ in },
      name: .init(scope: scope, number: version << 24 | count),
      body: TransactionBody(composite: "lift", event: []))
  }

  @Test("An event is acknowledged only if it is not waiting and its effect cannot run again")
  func acknowledged() {
    func sequence(waiting: [EmittedEvent], oldestEffect: UInt64?) -> UInt64? {
      var events = EmittedEvents()
      for event in waiting { events.add(event) }
      for count in UInt64(0)..<64 { events.noteTaken(Self.event(20, count)) }
      return events.takeAcknowledgement(oldestEffect: oldestEffect)?.sequence
    }
    #expect(sequence(waiting: [], oldestEffect: nil) == 20 << 24 | 63)
    #expect(sequence(waiting: [], oldestEffect: 7) == 7 << 24)
    #expect(sequence(waiting: [Self.event(5, 1)], oldestEffect: 7) == 5 << 24 | 1)
    #expect(sequence(waiting: [Self.event(5, 1, scope: 3)], oldestEffect: 7) == 7 << 24)
  }
}
