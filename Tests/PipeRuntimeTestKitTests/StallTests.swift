import PipeRuntimeTestKit
import Testing

/// Returns a failure's text without its last two lines, which show how the time was spent and what
/// the machine was doing.
func withoutStall(_ failure: String) -> String {
  let lines = failure.split(separator: "\n", omittingEmptySubsequences: false)
  #expect(lines.suffix(2).first?.contains("nothing moved for") == true)
  #expect(lines.last?.hasPrefix("  the machine: ") == true)
  return lines.dropLast(2).joined(separator: "\n")
}

@Suite("The end of a wait in a test")
struct StallTests {
  private typealias Sample = StallClock.Sample

  private static func clock(_ samples: [Sample]) -> StallClock {
    var clock = StallClock(limit: .seconds(1))
    for sample in samples { clock.add(sample) }
    return clock
  }

  private static func repeated(_ count: Int, _ sample: Sample) -> [Sample] {
    Array(repeating: sample, count: count)
  }

  @Test("Time without any progress ends a wait")
  func stalled() {
    let still = Sample(elapsed: .milliseconds(200))
    #expect(!Self.clock(Self.repeated(4, still)).hasStalled)
    #expect(Self.clock(Self.repeated(5, still)).hasStalled)
  }

  @Test(
    "Time with progress, or with runnable work, does not end a wait",
    arguments: [
      Sample(elapsed: .milliseconds(200), cpuTime: .milliseconds(200)),
      Sample(elapsed: .milliseconds(200), queueTime: .milliseconds(900)),
      Sample(elapsed: .milliseconds(200), isRunnable: true),
      Sample(elapsed: .milliseconds(200), hasChanged: true),
    ])
  private func moving(sample: Sample) {
    let clock = Self.clock(Self.repeated(100, sample))
    #expect(clock.breakdown.stalledTime == .zero)
    #expect(clock.breakdown.elapsed == .seconds(20))
    #expect(!clock.hasStalled)
  }

  @Test("Only the part of a sample without progress counts toward a stall")
  func part() {
    let sample = Sample(
      elapsed: .milliseconds(200), cpuTime: .milliseconds(30), queueTime: .milliseconds(70))
    let clock = Self.clock(Self.repeated(10, sample))
    #expect(clock.breakdown.stalledTime == .seconds(1))
    #expect(clock.breakdown.cpuTime == .milliseconds(300))
    #expect(clock.breakdown.queueTime == .milliseconds(700))
    #expect(clock.hasStalled)
  }

  @Test("At most half a second of a late sample counts toward a stall")
  func late() {
    let clock = Self.clock([Sample(elapsed: .seconds(600))])
    #expect(clock.breakdown.stalledTime == .milliseconds(500))
    #expect(!clock.hasStalled)
  }

  @Test("A process that computes endlessly counts as stalled")
  func computing() {
    let busy = Sample(elapsed: .seconds(1), cpuTime: .seconds(1), isRunnable: true)
    #expect(!Self.clock(Self.repeated(69, busy)).hasStalled)
    #expect(Self.clock(Self.repeated(70, busy)).hasStalled)
  }

  @Test("A wait for a value that never comes ends, although polling wakes threads of this process")
  func nothing() async throws {
    let answer: Int? = try await poll(within: .milliseconds(600)) { nil }
    #expect(answer == nil)
  }

  @Test("Waits for sleeping processes end, and waits for computing processes continue")
  func processes() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let environment = directory.environment()
    let sleeping = try LaunchedProgram("/bin/sleep", ["600"], environment: environment)
    #expect(try await sleeping.waitForExit(within: .milliseconds(300)) == nil)
    sleeping.signal(.kill)
    #expect(try await sleeping.waitForExit(within: .seconds(10)) == .signalled(number: 9))
    // The script computes for many times the limit, however slow the machine is.
    let script = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"
    let computing = try LaunchedProgram("/bin/sh", ["-c", script], environment: environment)
    #expect(try await computing.waitForExit(within: .milliseconds(50)) == .exited(code: 0))
  }
}
