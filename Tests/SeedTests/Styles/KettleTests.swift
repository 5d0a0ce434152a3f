import KettleSuite
import Kettles
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// What a kettle does in one process, in whatever style it is written.
@Suite("Each style: a kettle")
struct KettleTests {
  /// This process, by a clock of the test's own.
  private struct Process: KettleEnvironment {
    let clock: ManualClock
    let boilTime = 100
    let isExact = true

    var now: Duration { clock.now.offset }

    func make(_ style: KettleStyle, boilTime: Int) throws -> any Kettle {
      try style.make(KettleParameters(boilTime: boilTime))
    }

    func pass(_ duration: Duration, of left: Duration, heating kettle: any Kettle) async {
      // A wait that was cancelled is gone only a moment after.
      await yieldUntil(clock.sleepers.first?.offset == now + left)
      await clock.advance(by: duration)
    }
  }

  private static func inProcess(_ body: @Sendable (Process) async throws -> Void) async throws {
    try await withManualClock { try await body(Process(clock: $0)) }
  }

  @Test("events are taken in the order given", arguments: KettleStyle.all)
  func order(style: KettleStyle) async throws {
    try await Self.inProcess { try await KettleBehaviour.order(style, in: $0) }
  }

  @Test(
    "events that nobody waits for are taken in the order given, too", arguments: KettleStyle.all)
  func posted(style: KettleStyle) async throws {
    try await Self.inProcess { try await KettleBehaviour.posted(style, in: $0) }
  }

  @Test("an event that the state does not take changes nothing", arguments: KettleStyle.all)
  func refusal(style: KettleStyle) async throws {
    try await Self.inProcess { try await KettleBehaviour.refusal(style, in: $0) }
  }

  @Test("its effect takes its time, and leads to the next state", arguments: KettleStyle.all)
  func effect(style: KettleStyle) async throws {
    try await Self.inProcess { try await KettleBehaviour.effect(style, in: $0) }
  }

  @Test("its effect is cancelled when its state is left", arguments: KettleStyle.all)
  func cancellation(style: KettleStyle) async throws {
    try await Self.inProcess { try await KettleBehaviour.cancellation(style, in: $0) }
  }

  @Test("a model in a composite does by itself what it does alone")
  func composite() async throws {
    try await withManualClock { clock in
      let parameters = KettleParameters(boilTime: 100)
      let model = CompositeComponent(
        "model", stateMachine: ModelMachine<KettleModel>.stateMachine(parameters),
        runtime: ModelMachine<KettleModel>.runtime(parameters, Ports()))
      let machine = CompositeComponent(
        "machine", stateMachine: KettleMachine.stateMachine(parameters),
        runtime: KettleMachine.runtime(parameters, Ports()))
      let kettles = try AsyncCompositeSequence("kettles", model, machine)
      try await kettles.send(.switchOn, to: model)
      await clock.waitForSleepers()
      await clock.advance(by: .milliseconds(100))
      for await (model, machine) in kettles where model == .hot {
        #expect(machine == .off)
        break
      }
    }
  }

  @Test("two runs of one machine have a model each")
  func runs() async {
    await withManualClock { _ in
      let parameters = KettleParameters(boilTime: 100)
      let machine = ModelMachine<KettleModel>.stateMachine(parameters)
      let runtime = ModelMachine<KettleModel>.runtime(parameters, Ports())
      let first = AsyncStateMachineSequence(stateMachine: machine, runtime: runtime)
      let second = AsyncStateMachineSequence(stateMachine: machine, runtime: runtime)
      #expect(await first.send(.switchOn) == .moved(.heating))
      #expect(await second.send(.switchOff) == .moved(.off))
      #expect(await first.send(.switchOn) == .moved(.heating))
      #expect(second.state == .off)
    }
  }
}
