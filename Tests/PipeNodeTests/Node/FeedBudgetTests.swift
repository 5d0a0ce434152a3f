import PipeNode
import PipeSupport
import Testing

/// A feed with a budget, under a clock that the test moves.
private struct BudgetRun {
  private var budget = FeedBudget()
  private var opensAt: Int64?
  /// Whether each event was reported.
  private(set) var reportedFlags: [Bool] = []
  /// The times of the reported events. Unit: nanoseconds.
  private(set) var times: [Int64] = []
  /// The number of skipped events, at each query.
  private(set) var gaps: [UInt64] = []

  mutating func offerEvent(at now: Int64) {
    if let opensAt, now >= opensAt { reopen() }
    switch budget.take(at: { now }) {
    case .skip: reportedFlags.append(false)
    case .report: reported(now)
    case .reportAndPause(let wait):
      reported(now)
      opensAt = now + Int64(wait / .nanoseconds(1))
    }
  }

  mutating func reopen() {
    opensAt = nil
    gaps.append(budget.reopen())
  }

  private mutating func reported(_ now: Int64) {
    reportedFlags.append(true)
    times.append(now)
  }

  /// The largest number of events that was reported within one second.
  var maximumPerSecond: Int {
    var first = 0
    return times.indices.reduce(0) { most, last in
      while times[last] - times[first] >= 1_000_000_000 { first += 1 }
      return max(most, last - first + 1)
    }
  }
}

@Suite("The budget of a feed")
struct FeedBudgetTests {
  @Test("A feed reports all events that come at a rate within its budget")
  func slow() {
    var run = BudgetRun()
    // 1,700 a second for ten seconds, followed by a hundred at once.
    for event in 0..<17_000 { run.offerEvent(at: Int64(event) * 588_235) }
    #expect(run.reportedFlags.allSatisfy { $0 })
    for event in 0..<100 { run.offerEvent(at: 11_000_000_000 + Int64(event)) }
    #expect(run.reportedFlags.allSatisfy { $0 })
  }

  @Test(
    "A feed reports a flood of events as unbroken bursts and the exact number of skipped events")
  func flood() {
    var run = BudgetRun()
    for event in 0..<3_000_000 { run.offerEvent(at: Int64(event) * 1_000) }
    run.reopen()
    let bursts = run.reportedFlags.split(separator: false)
    #expect(bursts.allSatisfy { $0.count == FeedBudget.burstSize })
    let reported = run.reportedFlags.count { $0 }
    #expect(UInt64(run.reportedFlags.count - reported) == run.gaps.reduce(0, +))
    let between = run.reportedFlags.split(separator: true).map { UInt64($0.count) }
    #expect(between == run.gaps.filter { $0 > 0 })
    // A burst, and three seconds' worth of regained budget.
    #expect((5_000...5_800).contains(reported), "\(reported)")
  }

  @Test("A feed never exceeds its budget within a second, whatever the timing", arguments: 1...20)
  func limit(seed: UInt64) {
    var random = SplitMix64(seed: seed)
    var run = BudgetRun()
    var now: Int64 = 0
    while now < 5_000_000_000 {
      let pause = Int64.random(
        in: 0...[1_000, 500_000, 2_000_000, 150_000_000].randomElement(using: &random)!,
        using: &random)
      now += pause
      for _ in 0..<Int.random(in: 1...300, using: &random) {
        run.offerEvent(at: now)
        now += Int64.random(in: 0...2_000, using: &random)
      }
    }
    #expect(run.maximumPerSecond <= FeedBudget.maximumItemsPerSecond)
    #expect(run.maximumPerSecond > FeedBudget.burstSize)
  }

  @Test("A feed without budget does not read the clock")
  func clock() {
    var budget = FeedBudget()
    var asked = 0
    for _ in 0..<10_000 {
      _ = budget.take {
        asked += 1
        return 0
      }
    }
    #expect(asked == FeedBudget.burstSize)
  }
}

@Suite("The rate of a feed's summaries")
struct SummaryPaceTests {
  @Test("A feed sends the first summary after a pause at once, and the next summary 100 ms later")
  func pace() {
    var pace = SummaryPace()
    #expect(pace.noteChange(at: 5) == .report)
    #expect(pace.noteChange(at: 30_000_005) == .wait(.milliseconds(70)))
    #expect(pace.isWaiting)
    pace.endWait()
    #expect(!pace.isWaiting)
    #expect(pace.noteChange(at: 100_000_004) == .wait(.nanoseconds(1)))
    pace.endWait()
    #expect(pace.noteChange(at: 100_000_005) == .report)
    #expect(pace.noteChange(at: 900_000_000) == .report)
  }

  @Test("A node that changes all the time sends ten summaries a second")
  func flood() {
    var pace = SummaryPace()
    var reported = 0
    for now in stride(from: Int64(0), to: 10_000_000_000, by: 1_000_000) {
      switch pace.noteChange(at: now) {
      case .report: reported += 1
      case .wait: pace.endWait()
      }
    }
    #expect(reported == 100)
  }
}
