import PipeRuntime

/// A machine of the soak. Its sends and the results of its effects are pure functions, so that the
/// same machine can also run without processes, as a reference.
package protocol NumberMachine: Machine
where Event == NumberEvent, Parameters == NumberParameters, State: Equatable {
  /// Returns the event that an entry into the state sends through the port `out`.
  static func sent(on entry: State, _ parameters: Parameters) -> NumberEvent?
  /// Returns the event with which the effect of an output ends.
  static func answer(to output: Output) -> NumberEvent
}

extension NumberMachine where Output == Never {
  package static func answer(to output: Never) -> NumberEvent {}
}

/// The events of all machines of the soak.
package enum NumberEvent: MachineEvent, Equatable {
  /// The next number of a source, with the route that it has taken.
  case number(route: String, n: Int)
  /// Makes a source send until it has sent this number.
  case go(until: Int)
  /// A request, numbered by its client.
  case order(n: Int)
  /// The pause of a source after this number is over.
  case next(after: Int)
  /// The effect of the step with this count is complete.
  case done(count: Int)
}

package struct NumberParameters: MachineParameters {
  /// The node's name, which it adds to the route of each number that it passes on.
  package var id = ""
  /// The pause of a source between two bursts. Unit: microseconds.
  package var pause = 10_000
  /// The number of events in a burst of a source.
  package var burst = 5
  /// The duration of the effect of a worker or a gate. Unit: microseconds.
  package var work = 200
  package init() {}
}
