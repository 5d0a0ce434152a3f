import KettleSuite
import Kettles
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// The behaviour of a kettle in one process, the same in each style.
@Suite("A kettle written in each style")
struct KettleTests {
  /// An environment in this process, with a manual clock.
  private struct Process: KettleEnvironment {
    let clock: ManualClock
    let boilTime = 100
    let isExact = true

    var now: Duration { clock.now.offset }

    func make(_ style: KettleStyle, boilTime: Int) throws -> any Kettle {
      try style.make(KettleParameters(boilTime: boilTime))
    }

    func pass(_ duration: Duration, of left: Duration, heating kettle: any Kettle) async {
      // A cancelled sleeper is not removed at once, but shortly after its cancellation.
      await yieldUntil(clock.sleepers.first?.offset == now + left)
      await clock.advance(by: duration)
    }
  }

  private static func inProcess(_ body: @Sendable (Process) async throws -> Void) async throws {
    try await withManualClock { try await body(Process(clock: $0)) }
  }

  @Test("A kettle processes events in the order in which they are sent", arguments: KettleStyle.all)
  func order(style: KettleStyle) async throws {
    try await Self.inProcess { try await KettleBehaviour.order(style, in: $0) }
  }

  @Test(
    "A kettle processes events in order even if the sender does not wait for replies",
    arguments: KettleStyle.all)
  func posted(style: KettleStyle) async throws {
    try await Self.inProcess { try await KettleBehaviour.posted(style, in: $0) }
  }

  @Test(
    "An event that a kettle's state does not accept changes nothing", arguments: KettleStyle.all)
  func refusal(style: KettleStyle) async throws {
    try await Self.inProcess { try await KettleBehaviour.refusal(style, in: $0) }
  }

  @Test("A kettle's effect changes the state after the set time", arguments: KettleStyle.all)
  func effect(style: KettleStyle) async throws {
    try await Self.inProcess { try await KettleBehaviour.effect(style, in: $0) }
  }

  @Test(
    "A kettle's effect is cancelled when the kettle leaves the state", arguments: KettleStyle.all)
  func cancellation(style: KettleStyle) async throws {
    try await Self.inProcess { try await KettleBehaviour.cancellation(style, in: $0) }
  }

  @Test("A kettle model heats by itself in a composite, as it does outside of a composite")
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

  @Test("Two runs of one machine have separate models")
  func runs() async {
    await withManualClock { _ in
      let parameters = KettleParameters(boilTime: 100)
      let machine = ModelMachine<KettleModel>.stateMachine(parameters)
      let runtime = ModelMachine<KettleModel>.runtime(parameters, Ports())
      let first = AsyncStateMachineSequence(stateMachine: machine, runtime: runtime)
      let second = AsyncStateMachineSequence(stateMachine: machine, runtime: runtime)
      #expect(await first.send(.switchOn) == .accepted(.heating))
      #expect(await second.send(.switchOff) == .accepted(.off))
      #expect(await first.send(.switchOn) == .accepted(.heating))
      #expect(second.state == .off)
    }
  }
}
