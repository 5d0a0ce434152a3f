import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// The steps that the timers of a keyed node's instances cause.
///
/// The content gives an instance an engine for the step, and takes the engine back.
final class InstanceTimerSteps<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  private let table: InstanceTable<Hosted>
  private let engines: InstanceEngines<Hosted>
  private let timers: InstanceTimers

  init(
    _ core: MachineCore<Hosted>, _ table: InstanceTable<Hosted>,
    _ engines: InstanceEngines<Hosted>, _ timers: InstanceTimers
  ) {
    self.core = core
    self.table = table
    self.engines = engines
    self.timers = timers
  }

  /// Continues the timers of the last process with their deadlines, without reading the instances.
  func resume() throws {
    guard let journal = core.journal, journal.contents != nil else { return }
    let parked = try journal.deadLetteredEffects()
    var poison: (key: InstanceKey, effect: PoisonEffect)?
    try journal.forEachInstanceTimer { key, recorded in
      let origin = recorded.origin
      if let effect = core.poisonEffect, effect.origin == origin { poison = (key, effect) }
      timers.restore(
        InstanceTimers.Timer(
          key: key, origin: origin, entry: recorded.startInstant,
          delay: recorded.delay.clampedNanoseconds),
        isParked: poison?.key == key || parked.contains(origin))
    }
    if let poison, let instance = try table.find(poison.key) {
      core.park(poison.effect, of: instance.state, in: poison.key)
    }
    timers.setAlarm()
  }

  /// Fires the timers that are due. Leaves half of the budget to waiting inputs.
  func fireDue(_ budget: inout Int) {
    let now = BootClock.nanoseconds
    let reserve = core.inbox.isEmpty ? 0 : budget / 2
    while budget > reserve, core.isStarted, core.engine.canTakeInput,
      let timer = timers.takeDue(at: now)
    {
      budget -= 1
      do { try fire(timer, at: now) } catch { core.onEnd?("\(error)") }
    }
    timers.setAlarm()
  }

  private func fire(_ timer: InstanceTimers.Timer, at now: Int64) throws {
    guard let content = engines.owner.caller else { return }
    guard let instance = try table.find(timer.key), instance.id == timer.origin.instance else {
      return timers.set(timer.key, nil)
    }
    let current = core.engine
    content.begin(instance)
    if let hosted = instance.engine, let running = hosted.engine.timers {
      let elapsed = Duration.nanoseconds(now - timer.entry.timeSinceBoot)
      let hasTimers = try running.resume(
        of: instance.state, version: timer.origin.version, since: timer.entry, elapsed: elapsed)
      if hasTimers, let remaining = running.remainingTime, remaining <= .zero {
        hosted.engine.process(running.dueInput)
      } else {
        // The machine or its parameters have changed since the instance entered the state.
        let next = running.runningTimers.first.map { $0.duration.clampedNanoseconds }
        running.cancel()
        timers.set(
          timer.key,
          next.map {
            InstanceTimers.Timer(
              key: timer.key, origin: timer.origin, entry: timer.entry, delay: $0)
          })
      }
    } else {
      timers.set(timer.key, nil)
    }
    content.end(instance)
    core.engine = current === core.engine ? engines.idle : current
  }

  /// Stores the next timer of an instance, which has entered a state. If `next` is `nil`, the state
  /// has no timer, and the instance's former timer is removed.
  func keep(
    _ next: EngineTimers<Hosted.State, Hosted.Event, Hosted.Output>.NextTimer?,
    in hosted: InstanceEngine<Hosted>
  ) {
    guard let instance = hosted.instance else { return }
    timers.set(
      instance.key,
      next.map { next in
        InstanceTimers.Timer(
          key: instance.key,
          origin: EffectOrigin(
            version: next.entry.version, feedback: EffectOrigin.timers, instance: instance.id),
          entry: next.entry.instant, delay: next.delay.clampedNanoseconds)
      })
  }
}

extension InstanceTimers.Timer {
  /// The time when the timer is due. Unit: nanoseconds since 1970.
  var dueTime: Int64 { WallClock.nanoseconds &+ (deadline &- BootClock.nanoseconds) }
}
