import PipeRuntime

// One kettle, written in each style. docs/STYLES.md compares them.

package enum KettleState: MachineState, Hashable {
  case off
  case heating
  case hot
}

package enum KettleEvent: MachineEvent, Hashable {
  case switchOn
  case switchOff
  case boiled
}

package struct KettleParameters: MachineParameters {
  /// How long the water takes to boil. Unit: milliseconds.
  package var boilTime = 1_000

  package init() {}

  package init(boilTime: Int) { self.boilTime = boilTime }

  package func validate() throws(ParameterMismatch) {
    try require("boilTime", boilTime, atLeast: 0)
  }

  /// Waits until the water boils. Throws on cancellation.
  package func boil() async throws {
    try await EffectClock.sleep(for: .milliseconds(boilTime))
  }
}
