import PipeRuntime

/// A machine for the soak. Pure functions compute the events that it sends and the results of its
/// effects. So the machine can also run without processes, to compute the expected states.
package protocol NumberMachine: Machine
where Event == NumberEvent, Parameters == NumberParameters, State: Equatable {
  /// Returns the event that the machine sends through the port `out` on entering a state; `nil` for
  /// none.
  static func sent(on entry: State, _ parameters: Parameters) -> NumberEvent?
  /// Returns the event that the effect of an output produces.
  static func answer(to output: Output) -> NumberEvent
}

extension NumberMachine where Output == Never {
  package static func answer(to output: Never) -> NumberEvent {}
}

/// The events of all machines for the soak.
package enum NumberEvent: MachineEvent, Equatable {
  /// A number from a source, with the route on which it has travelled.
  case number(route: String, n: Int)
  /// A request to a source to send numbers up to this one.
  case go(until: Int)
  /// A request from a client, which numbers its requests.
  case order(n: Int)
  /// The end of a source's pause after this number.
  case next(after: Int)
  /// The end of the effect that was started by the step with this count.
  case done(count: Int)
}

package struct NumberParameters: MachineParameters {
  /// The node's name. The node adds it to the route of each number that it passes on.
  package var id = ""
  /// The pause of a source after a burst. Unit: microseconds.
  package var pause = 10_000
  /// The number of events in a burst of a source.
  package var burst = 5
  /// The duration of a worker's or gate's effect. Unit: microseconds.
  package var work = 200
  package init() {}
}
