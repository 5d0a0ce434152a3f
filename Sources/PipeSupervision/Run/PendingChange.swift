import PipeWire

/// A file that the topology may go over to, and what it would change.
struct PlannedStep {
  let number: UInt64
  let plan: LaunchPlan
  let change: TopologyChange
}

/// The way to a new file: it is loaded, shown to a client, asked for by that, and in force once all that it
/// changes has ended.
struct PendingChange {
  private var shown: PlannedStep?
  private var asked: PlannedStep?
  private var isLoading = false
  private var lastNumber: UInt64 = 0

  /// - Returns: Whether a file may be loaded that is to be applied: not while another is.
  mutating func beginLoading() -> Bool {
    guard !isLoading else { return false }
    isLoading = true
    return true
  }

  mutating func endLoading() { isLoading = false }

  /// - Parameter isDryRun: It cannot be asked for.
  /// - Returns: The number by which the client asks for it.
  mutating func show(_ plan: LaunchPlan, _ change: TopologyChange, isDryRun: Bool) -> UInt64 {
    lastNumber += 1
    if !isDryRun { shown = PlannedStep(number: lastNumber, plan: plan, change: change) }
    return lastNumber
  }

  /// - Parameter change: What a plan changes now.
  /// - Returns: What was shown under this number, where it still changes what it did then.
  mutating func ask(
    for number: UInt64, _ change: (LaunchPlan) -> TopologyChange
  ) -> PlannedStep? {
    guard let shown, shown.number == number, change(shown.plan) == shown.change else { return nil }
    self.shown = nil
    asked = shown
    return shown
  }

  /// What was asked for: nothing runs any more that it changes.
  mutating func takeAsked() -> PlannedStep? {
    defer { asked = nil }
    return asked
  }
}
