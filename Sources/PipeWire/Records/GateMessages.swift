import PipeMachines

/// The body of a `gate` frame: a request to a gated node, which takes only the steps that it is
/// requested to take.
package enum GateRequest: Codable, Hashable, Sendable {
  /// Report what the node could take next. Waits until the node has taken this number of steps, and
  /// no step is in progress.
  case look(version: UInt64)
  /// Report whether the machine accepts an event in its current state, and take no step.
  case evaluate(event: JSONValue)
  /// Take an event that does not come from the topology.
  case takeOutside(event: JSONValue)
  /// Take the event of a pipe with this number. Waits until the event has arrived.
  case takePipe(pipe: String, number: UInt64)
  /// Take an event of a running effect.
  case takeEffect(effect: String, event: JSONValue)
  /// End a running effect without an event.
  case endEffect(effect: String)
  /// Fire the timer that is due first.
  case fireTimer
}

/// The answer to a ``GateRequest``: what the node could take next and, after a step, its outcome.
package struct GateReport: Codable, Hashable, Sendable {
  /// The outcome of a step.
  package enum Outcome: Codable, Hashable, Sendable {
    case accepted
    /// The node refused the event. The reason is a code as in `orchestrator why`, or `undecodable`.
    case refused(reason: String)
    /// Participants refused the synchronized event. The reasons, by the names of the participants.
    case refusedByParticipants(reasons: [String: String])
    /// A timer with this duration has fired.
    case fired(delay: String)
    /// The node could not take the requested step. Its state is unchanged.
    case impossible(problem: String)
  }

  /// An event in a pipe.
  package struct Event: Codable, Hashable, Sendable {
    package var number: UInt64
    package var event: JSONValue
    /// Whether the node has postponed the event, because it refuses the event in its current state.
    package var isPostponed: Bool

    package init(number: UInt64, event: JSONValue, isPostponed: Bool = false) {
      self.number = number
      self.event = event
      self.isPostponed = isPostponed
    }
  }

  /// One end of a pipe.
  package struct PipeEnd: Codable, Hashable, Sendable {
    package var pipe: String
    /// The id of the numbering of events; 0 if the receiver does not know it yet.
    package var stream: UInt64
    /// The number of the last event that has arrived; at a sender, of the last event that was sent
    /// into the pipe.
    package var last: UInt64
    /// At a receiver, the events that have arrived and have no outcome yet, in the order in which
    /// the node would take them. At a sender, the events that the receiver has not acknowledged.
    package var events: [Event]

    package init(pipe: String, stream: UInt64, last: UInt64, events: [Event]) {
      self.pipe = pipe
      self.stream = stream
      self.last = last
      self.events = events
    }
  }

  /// The outcome of the requested step; `nil` if no step was requested.
  package var outcome: Outcome?
  package var version: UInt64
  /// The state of the machine; `nil` for a coordinator.
  package var state: JSONValue?
  /// The names of the effects that have not ended.
  package var effects: [String]
  /// The duration of the timer that is due first; `nil` if no timer is running.
  package var timer: String?
  package var ins: [PipeEnd]
  package var outs: [PipeEnd]

  package init(
    _ outcome: Outcome? = nil, version: UInt64 = 0, state: JSONValue? = nil, effects: [String] = [],
    timer: String? = nil, ins: [PipeEnd] = [], outs: [PipeEnd] = []
  ) {
    self.outcome = outcome
    self.version = version
    self.state = state
    self.effects = effects
    self.timer = timer
    self.ins = ins
    self.outs = outs
  }
}

extension RequestReply {
  /// Returns the answer to a ``GateRequest``.
  package static func gated(by report: GateReport) -> RequestReply {
    do { return .gated(try JSONRecord.encode(report)) } catch {
      return .invalid("the report of the gate cannot be written as JSON: \(error)")
    }
  }
}
