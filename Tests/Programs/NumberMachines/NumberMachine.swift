import PipeRuntime

/// A machine of the soak: what it sends and what its effects bring are pure functions, so that the
/// same machine can be run without processes, for comparison.
package protocol NumberMachine: Machine
where Event == NumberEvent, Parameters == NumberParameters, State: Equatable {
  /// What an entry into the state sends through the port `out`.
  static func sent(on entry: State, _ parameters: Parameters) -> NumberEvent?
  /// The event with which the effect of an output ends.
  static func answer(to output: Output) -> NumberEvent
}

extension NumberMachine where Output == Never {
  package static func answer(to output: Never) -> NumberEvent {}
}

/// The events of all machines of the soak.
package enum NumberEvent: MachineEvent, Equatable {
  /// The next number of a source, which has come along this route.
  case number(route: String, n: Int)
  /// A source sends on, until it has sent this number.
  case go(until: Int)
  /// A request that is numbered by its client.
  case order(n: Int)
  /// A source's pause after this number is over.
  case next(after: Int)
  /// The effect of the step with this count is over.
  case done(count: Int)
}

package struct NumberParameters: MachineParameters {
  /// The node's name, which it adds to the route of what it passes on.
  package var id = ""
  /// How long a source pauses between two bursts. Unit: microseconds.
  package var pause = 10_000
  /// Numbers that a source sends in a burst.
  package var burst = 5
  /// How long the effect of a worker or a gate takes. Unit: microseconds.
  package var work = 200
  package init() {}
}
