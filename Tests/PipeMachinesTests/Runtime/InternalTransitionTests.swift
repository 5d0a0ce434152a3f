import PipeMachines
import Synchronization
import Testing

@Suite("Internal transitions and ignored events of running machines", .timeLimit(.minutes(1)))
struct InternalTransitionTests {
  /// Counts the starts of effects, and the events that a machine sends.
  private final class Log: Sendable {
    private let lines = Mutex<[String]>([])
    func add(_ line: String) { lines.withLock { $0.append(line) } }
    var all: [String] { lines.withLock { $0 } }
    func count(_ line: String) -> Int { all.count { $0 == line } }
  }

  /// A boiler's engine. Its effects do not run: each is in `unfinishedEffects` until it is cancelled.
  private func engine(
    _ log: Log, feedback: Feedback<Boil, BoilEvent>? = nil
  ) -> Engine<Boil, BoilEvent, BoilOutput> {
    var runtime = Runtime<Boil, BoilEvent, BoilOutput>()
      .map(
        output: BoilOutput.boil, to: { BoilEvent.boiled }, strategy: .cancelWhenAnyState
      )
      .register(middleware: { (state: Boil) in log.add("state \(state)") })
    if let feedback { runtime = runtime.feedback(feedback) }
    let engine = Engine(machine: boiler(), runtime: runtime) { _ in }
    engine.effects.deferUntilRecorded()
    engine.onEntry = { state, version, _ in log.add("entry \(state) \(version)") }
    engine.onInternalTransition = { state, version, _ in log.add("stay \(state) \(version)") }
    engine.start()
    return engine
  }

  @Test("An internal transition increases the version, enters no state and cancels no effect")
  func stay() {
    let log = Log()
    let engine = engine(log)
    _ = engine.take(.on, cause: "")
    #expect(engine.runningEffectCount == 1)
    let started = engine.effects.oldestVersion
    #expect(engine.take(.rose(by: 5), cause: "") == .accepted(.heating(degrees: 25), version: 2))
    #expect(engine.version == 2)
    #expect(engine.runningEffectCount == 1)
    #expect(engine.effects.oldestVersion == started)
    #expect(log.count("stay heating(degrees: 25) 2") == 1)
    #expect(!log.all.contains("entry heating(degrees: 25) 2"))
    // State middleware follows the values of the state.
    #expect(log.count("state heating(degrees: 25)") == 1)
    // An external transition to the same state enters it: the effect starts again.
    _ = engine.take(.on, cause: "")
    #expect(log.count("entry heating(degrees: 25) 3") == 1)
    #expect(engine.effects.oldestVersion == 3)
  }

  @Test("An ignored event changes neither the version nor the refusal count, and calls no closure")
  func ignore() {
    let log = Log()
    let engine = engine(log)
    let before = log.all
    #expect(engine.take(.tick, cause: "") == .accepted(.off, version: 0))
    #expect(engine.version == 0)
    #expect(engine.refusals == 0)
    #expect(engine.ignoredEvents == 1)
    #expect(log.all == before)
  }

  @Test("Coverage counts internal transitions and ignored events as transitions")
  func tally() {
    let engine = engine(Log())
    let tally = TransitionTally<Boil, BoilEvent>()
    defer { tally.deallocate() }
    engine.trace.tally = tally
    _ = engine.take(.tick, cause: "")
    _ = engine.take(.on, cause: "")
    _ = engine.take(.rose(by: 1), cause: "")
    var counted: [String] = []
    tally.forEach { state, event, count in
      counted.append(
        "\(EnumCases<Boil>.names[state]) \(event.map { EnumCases<BoilEvent>.names[$0] } ?? "timer") \(count)"
      )
    }
    #expect(Set(counted) == ["off tick 1", "off on 1", "heating rose 1"])
  }

  @Test("A feedback starts if an internal transition changes its part of the state")
  func feedback() {
    let log = Log()
    let lensing = Feedback<Boil, BoilEvent>(
      lensing: { state in
        if case .heating(let degrees) = state, degrees >= 30 { degrees } else { nil }
      },
      effect: { (_: Int) in nil })
    let engine = engine(log, feedback: lensing)
    _ = engine.take(.on, cause: "")
    #expect(engine.runningEffectCount == 1)
    _ = engine.take(.rose(by: 1), cause: "")
    #expect(engine.runningEffectCount == 1)
    _ = engine.take(.rose(by: 20), cause: "")
    #expect(engine.runningEffectCount == 2)
  }

  @Test("Senders of ignored events get the state, and readers see a state only if it has changed")
  func sequence() async {
    let log = Log()
    let sequence = AsyncStateMachineSequence(
      stateMachine: boiler(),
      runtime: Runtime().map(output: BoilOutput.boil, to: { () async -> BoilEvent? in nil }))
    for event in [BoilEvent.tick, .on, .rose(by: 2), .slowly(by: 3), .rose(by: -1), .off] {
      await sequence.send(event)
    }
    for await state in sequence {
      log.add("\(state)")
      if log.all.count == 5 { break }
    }
    #expect(
      log.all == [
        "off", "heating(degrees: 20)", "heating(degrees: 22)", "heating(degrees: 25)", "off",
      ])
  }

  @Test("A rule that sends an event on a state fires on an entry, not on an internal transition")
  func rules() async {
    let pipe = Pipe<BoilEvent>()
    let log = Log()
    let sender = AsyncStateMachineSequence(
      stateMachine: boiler(),
      runtime: Runtime<Boil, BoilEvent, BoilOutput>()
        .map(output: BoilOutput.boil, to: { () async -> BoilEvent? in nil })
        .connectAsSender(
          to: pipe, when: Boil.heating(degrees:), send: { BoilEvent.rose(by: $0) }))
    let receiver = AsyncStateMachineSequence(
      stateMachine: StateMachine<Boil, BoilEvent, Never>(initial: .off) { _, event in
        log.add("\(event)")
        return .ignored
      }, runtime: Runtime().connectAsReceiver(to: pipe))
    for event in [BoilEvent.on, .rose(by: 2), .slowly(by: 3), .on] { await sender.send(event) }
    while log.all.count < 2 { await Task.yield() }
    #expect(log.all == ["rose(by: 20)", "rose(by: 25)"])
    _ = receiver
  }
}
