import PipeRuntime

// The files in this folder define the same kettle in several styles. docs/STYLES.md compares the
// styles.

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
  /// The time until the water boils. Unit: milliseconds.
  package var boilTime = 1_000

  package init() {}

  package init(boilTime: Int) { self.boilTime = boilTime }

  package func validate() throws(ParameterMismatch) {
    try require("boilTime", boilTime, atLeast: 0)
  }

  /// Waits until the water boils. Throws an error if the task is cancelled.
  package func boil() async throws {
    try await EffectClock.sleep(for: .milliseconds(boilTime))
  }
}
