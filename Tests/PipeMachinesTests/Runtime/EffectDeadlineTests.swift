import Foundation
import PipeMachines
import PipeRuntimeTestKit
import Synchronization
import Testing

private enum Boiler: DSLCompatible, Equatable { case cold, heating, hot }
private enum Heat: DSLCompatible { case start, ready }
private enum Work: DSLCompatible { case heat }

/// An effect that runs again after some of its time has passed.
@Suite("Sleeps of an effect that a restarted process runs again")
struct EffectDeadlineTests {
  private final class Log: Sendable {
    private let lines = Mutex<[String]>([])
    var all: [String] { lines.withLock { $0 } }
    func tell(_ line: String) { lines.withLock { $0.append(line) } }
  }

  /// Returns the durations of the effect's sleeps, in order, and the warnings.
  private func sleeps(
    _ count: Int, elapsed: Duration, _ wait: @escaping @Sendable () async throws -> Void
  ) async -> (times: [Duration], warnings: [String]) {
    let machine = StateMachine<Boiler, Heat, Work>(
      initial: .cold, reduce: { _, _ in Boiler.hot },
      output: { $0 == .heating ? Work.heat : nil })
    let runtime = Runtime<Boiler, Heat, Work>().map(
      output: Work.heat,
      to: { () async -> Heat? in
        try? await wait()
        return nil
      })
    let (clock, log) = (ManualClock(), Log())
    let engine = EffectClock.$current.withValue(clock) {
      Engine(machine: machine, runtime: runtime) { _ in }
    }
    defer { engine.stop() }
    engine.restore(.heating, version: 3)
    Warnings.$tell.withValue({ log.tell($0) }) {
      #expect(engine.resumeEffect(of: .heating, EffectOrigin(version: 3), elapsed: elapsed))
    }
    var times: [Duration] = []
    for _ in 0..<count {
      await clock.waitForSleepers()
      guard let deadline = clock.sleepers.first else { break }
      let time = clock.now.duration(to: deadline)
      times.append(time)
      await clock.advance(by: time)
    }
    return (times, log.all)
  }

  private static func isAbout(_ time: Duration, _ expected: Duration) -> Bool {
    time <= expected && time > expected - .seconds(90)
  }

  @Test("A sleep until a deadline ends at the deadline")
  func deadline() async {
    let instant = ContinuousClock.now + .seconds(700)
    let moment = Date(timeIntervalSinceNow: 700)
    for wait: @Sendable () async throws -> Void in [
      { try await EffectClock.sleep(until: instant) },
      { try await EffectClock.sleep(until: moment) },
    ] {
      let (times, warnings) = await sleeps(1, elapsed: .seconds(500), wait)
      #expect(times.count == 1 && Self.isAbout(times[0], .seconds(700)), "\(times)")
      #expect(warnings.isEmpty)
    }
  }

  @Test(
    "If an effect computes a sleep from a deadline, the sleep ends early and a warning is logged")
  func misuse() async {
    let instant = ContinuousClock.now + .seconds(700)
    let (times, warnings) = await sleeps(1, elapsed: .seconds(500)) {
      try await EffectClock.sleep(for: instant - ContinuousClock.now)
    }
    #expect(times.count == 1 && Self.isAbout(times[0], .seconds(200)), "\(times)")
    #expect(warnings.count == 1)
    #expect(warnings.first?.contains("call EffectClock.sleep(until:) with the deadline") == true)
  }

  @Test("A sleep for a fixed duration is shortened by the time that has passed, without a warning")
  func time() async {
    for duration in [Duration.seconds(12), .seconds(1) / 7, .milliseconds(12_345)] {
      let (times, warnings) = await sleeps(1, elapsed: .milliseconds(100)) {
        try await EffectClock.sleep(for: duration)
      }
      #expect(times == [duration - .milliseconds(100)])
      #expect(warnings.isEmpty)
    }
  }

  @Test("A sleep in the first run of an effect causes no warning, whatever its duration")
  func first() async {
    let instant = ContinuousClock.now + .seconds(700)
    let (times, warnings) = await sleeps(1, elapsed: .zero) {
      try await EffectClock.sleep(for: instant - ContinuousClock.now)
    }
    #expect(times.count == 1 && Self.isAbout(times[0], .seconds(700)), "\(times)")
    #expect(warnings.isEmpty)
  }

  @Test("A sleep that follows a deadline is shortened only by the time since the deadline")
  func after() async {
    let ahead = ContinuousClock.now + .seconds(700)
    let (times, _) = await sleeps(2, elapsed: .seconds(500)) {
      try await EffectClock.sleep(until: ahead)
      try await EffectClock.sleep(for: .seconds(1_000))
    }
    #expect(times.count == 2 && times[1] == .seconds(1_000), "\(times)")
    let past = ContinuousClock.now - .seconds(300)
    let (later, _) = await sleeps(1, elapsed: .seconds(500)) {
      try await EffectClock.sleep(until: past)
      try await EffectClock.sleep(for: .seconds(1_000))
    }
    #expect(later.count == 1 && Self.isAbout(later[0], .seconds(700)), "\(later)")
  }
}
