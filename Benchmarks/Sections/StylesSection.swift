import CProcess
import Glibc
import Kettles
import PipeRuntime

/// Measures the number of events per second of the kettle in each style of writing a machine.
struct StylesSection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) {
    let count = setting.pick(20_000, quick: 2_000)
    let repeats = setting.pick(5, quick: 1)
    var rates: [(style: String, samples: Samples)] = Self.styles.map { ($0.name, Samples()) }
    for _ in 0..<repeats {
      for (index, style) in Self.styles.enumerated() {
        let start = Clock.nanoseconds
        MainQueue.run { await style.drive(count) }
        rates[index].samples.add(Double(count) / (Double(Clock.nanoseconds - start) / 1e9))
      }
    }
    let languageRate = rates[0].samples.median
    for (style, samples) in rates {
      report.add(
        Figure(
          name: "a kettle: \(style)", value: .perSecond(samples.median),
          baseline: .perSecond(languageRate)))
    }
    report.note(
      "switched on and off: every second event starts an effect, and the next cancels it;")
    report.note("the baseline is the machine language")
  }

  private struct Style {
    var name: String
    var drive: @Sendable (Int) async -> Void
  }

  // The boil time is an hour, so that the water never boils.
  private static let parameters = KettleParameters(boilTime: 3_600_000)

  private static let styles: [Style] = [
    Style(name: "machine language") {
      await drive(KettleMachine.self, on: .switchOn, off: .switchOff, $0)
    },
    Style(name: "reduce and feedback") {
      await drive(KettleReducer.self, on: .switchOn, off: .switchOff, $0)
    },
    Style(name: "loadable") {
      await drive(KettleLoader.self, on: .onAppear, off: .onDisappear, $0)
    },
    Style(name: "model actor") { count in
      guard let model = try? KettleModel(startsWith: .off, parameters) else { return }
      for index in 0..<count {
        await model.take(index.isMultiple(of: 2) ? .switchOn : .switchOff)
      }
    },
    Style(name: "feature as a node's machine") {
      await drive(KettleNode.self, on: .switchOn, off: .switchOff, $0)
    },
    Style(name: "store, on the main actor, no effect") { count in
      await drive(
        store: await Store(feature: KettleFeature(), initialState: KettleState.off), count)
    },
  ]

  @MainActor
  private static func drive(store: Store<KettleFeature>, _ count: Int) async {
    for index in 0..<count {
      await store.send(action: index.isMultiple(of: 2) ? .switchOn : .switchOff)
    }
  }

  private static func drive<Hosted: Machine>(
    _: Hosted.Type, on: Hosted.Event, off: Hosted.Event, _ count: Int
  ) async where Hosted.Parameters == KettleParameters {
    let sequence = AsyncStateMachineSequence(
      stateMachine: Hosted.stateMachine(parameters), runtime: Hosted.runtime(parameters, Ports()))
    for index in 0..<count { await sequence.send(index.isMultiple(of: 2) ? on : off) }
    sequence.finish()
  }
}

/// Blocks the main thread until asynchronous work is complete. Runs the main actor's jobs
/// meanwhile.
private enum MainQueue {
  static func run(_ work: @escaping @Sendable () async -> Void) {
    let isDone = Locked(false)
    Task {
      await work()
      isDone.withLock { $0 = true }
      // Wake the loop below.
      Task { @MainActor in }
    }
    while !isDone.withLock({ $0 }) {
      var item = pollfd(fd: pr_main_queue_descriptor(), events: Int16(POLLIN), revents: 0)
      if poll(&item, 1, 100) > 0 { pr_run_main_queue() }
    }
  }
}
