import CAllocations
import PipeRuntime

/// Measures the cost of a step in a long run: the number of allocations, and whether time and
/// memory stay stable.
struct SteadySection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) {
    let stepCount = setting.pick(1_000_000, quick: 100_000)
    report.add(
      Figure(
        name: "allocations of a step by reduce",
        value: .count(Self.allocations(of: stepCount) { ReduceSection.reduce(steps: stepCount) }),
        target: .atMost(.count(0.01))))
    report.add(
      Figure(
        name: "allocations of a send to AsyncStateMachineSequence",
        value: .count(
          Self.allocations(of: stepCount) {
            Blocking.run { await ReduceSection.sequence(count: stepCount) }
          })))
    measureLongRun(&report)
  }

  /// Compares the last tenth of a long run with its first tenth.
  private func measureLongRun(_ report: inout Report) {
    let part = setting.pick(1_000_000, quick: 100_000)
    let (times, growth) = Blocking.run { await Self.parts(of: part) }
    report.add(
      Figure(
        name: "a send among the last of \((10 * part).grouped); the first",
        value: .seconds(times.last! / Double(part)),
        baseline: .seconds(times.first! / Double(part)),
        target: .ratioAtMost(1.5)))
    report.add(
      Figure(
        name: "memory that came with them", value: .bytes(growth), target: .atMost(.megabytes(1))))
    report.note(
      "a tenth of the sends is timed at a time; memory is resident, after the first tenth")
  }

  private static func allocations(of count: Int, _ body: () -> Void) -> Double {
    ca_count(1)
    body()
    let allocations = ca_allocations()
    ca_count(0)
    return Double(allocations) / Double(count)
  }

  private static func parts(of count: Int) async -> (times: [Double], growth: Int) {
    let sequence = AsyncStateMachineSequence(stateMachine: Door.machine(reopens: true))
    let reader = Task {
      for await state in sequence { blackHole(state) }
    }
    var times: [Double] = []
    var before = 0
    for part in 0..<10 {
      let start = Clock.nanoseconds
      for index in 0..<count { await sequence.send(ReduceSection.events[index & 3]) }
      times.append(Double(Clock.nanoseconds - start) / 1e9)
      if part == 0 { before = HostMachine.residentByteCount }
    }
    let growth = HostMachine.residentByteCount - before
    sequence.finish()
    await reader.value
    return (times, max(0, growth))
  }
}

extension HostMachine {
  /// The resident memory of this process. Unit: bytes.
  static var residentByteCount: Int {
    // The first field is the total size; the second field is the number of resident pages.
    let pages = text(of: "/proc/self/statm").split(separator: " ").dropFirst().first
    return (pages.flatMap { Int($0) } ?? 0) * 4_096
  }
}
