import Kettles
import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// What a kettle does, in whatever style it is written.
@Suite("Each style: a kettle")
struct KettleTests {
  /// The first of the states to come that is the one wanted.
  private static func wait(for wanted: KettleState, of kettle: any Kettle) async -> KettleState? {
    for await state in kettle.states where state == wanted { return state }
    return nil
  }

  @Test("events are taken in the order given", arguments: KettleStyle.all)
  func order(style: KettleStyle) async throws {
    try await withManualClock { _ in
      let kettle = try style.make(KettleParameters(boilTime: 100))
      #expect(kettle.state == .off)
      for _ in 0..<50 {
        await kettle.switchOn()
        #expect(kettle.state == .heating)
        await kettle.switchOff()
        #expect(kettle.state == .off)
      }
    }
  }

  @Test(
    "events that nobody waits for are taken in the order given, too", arguments: KettleStyle.all)
  func posted(style: KettleStyle) async throws {
    try await withManualClock { _ in
      let kettle = try style.make(KettleParameters(boilTime: 100))
      var states = kettle.states.makeAsyncIterator()
      for _ in 0..<50 {
        kettle.post(on: true)
        kettle.post(on: false)
      }
      kettle.post(on: true)
      // One that overtook another would be refused, and its state missing.
      for _ in 0..<50 {
        #expect(await states.next() == .off)
        #expect(await states.next() == .heating)
      }
      #expect(await states.next() == .off)
      #expect(await states.next() == .heating)
    }
  }

  @Test("an event that the state does not take changes nothing", arguments: KettleStyle.all)
  func refusal(style: KettleStyle) async throws {
    try await withManualClock { clock in
      let kettle = try style.make(KettleParameters(boilTime: 100))
      await kettle.switchOff()
      #expect(kettle.state == .off)
      await kettle.switchOn()
      await clock.waitForSleepers()
      await kettle.switchOn()
      #expect(kettle.state == .heating)
      await clock.advance(by: .milliseconds(100))
      #expect(await Self.wait(for: .hot, of: kettle) == .hot)
      await kettle.switchOn()
      #expect(kettle.state == .hot)
    }
  }

  @Test("its effect takes its time, and leads to the next state", arguments: KettleStyle.all)
  func effect(style: KettleStyle) async throws {
    try await withManualClock { clock in
      let kettle = try style.make(KettleParameters(boilTime: 100))
      await kettle.switchOn()
      await clock.waitForSleepers()
      await clock.advance(by: .milliseconds(99))
      #expect(kettle.state == .heating)
      await clock.advance(by: .milliseconds(1))
      #expect(await Self.wait(for: .hot, of: kettle) == .hot)
    }
  }

  @Test("its effect is cancelled when its state is left", arguments: KettleStyle.all)
  func cancellation(style: KettleStyle) async throws {
    try await withManualClock { clock in
      let kettle = try style.make(KettleParameters(boilTime: 100))
      await kettle.switchOn()
      await clock.waitForSleepers()
      await clock.advance(by: .milliseconds(60))
      await kettle.switchOff()
      await kettle.switchOn()
      // The new one begins anew, and the old one is gone.
      while clock.sleepers.map(\.offset).min() != .milliseconds(160) { await Task.yield() }
      await clock.advance(by: .milliseconds(40))
      #expect(kettle.state == .heating)
      await clock.advance(by: .milliseconds(60))
      #expect(await Self.wait(for: .hot, of: kettle) == .hot)
    }
  }
}
