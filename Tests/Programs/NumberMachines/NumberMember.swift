import PipeRuntime

/// A member of composites. It takes synchronized events, called meetings, together with other
/// members, and stores each meeting in its state. Between meetings it accepts numbers from pipes.
/// After every third meeting it rests until an effect ends the rest.
package enum NumberMember: Machine {
  /// The events that a member has taken.
  package struct Record: Codable, Hashable, Sendable {
    /// The meetings, oldest first. Each meeting is written as the caller's name and the caller's
    /// number for the meeting, such as `caller:17`.
    package var met: [String] = []
    /// The counts of the numbers that arrived from pipes.
    package var tallies = Tallies()

    package init() {}

    fileprivate func meeting(_ by: String, _ n: Int) -> Record {
      var record = self
      record.met.append("\(by):\(n)")
      return record
    }

    fileprivate func adding(_ n: Int, of route: String) -> Record {
      var record = self
      record.tallies = tallies.adding(n, of: route)
      return record
    }
  }

  package enum State: MachineState, Equatable {
    case free(record: Record)
    /// The member has just taken a meeting. On entering this state, it sends the number of its
    /// meetings.
    case met(record: Record)
    /// The member has taken a meeting, and rests. On entering this state, it sends the number of
    /// its meetings.
    case resting(record: Record)

    package var record: Record {
      switch self {
      case .free(let record), .met(let record), .resting(let record): record
      }
    }
  }

  package enum Event: MachineEvent, Equatable {
    case meet(by: String, n: Int)
    case number(route: String, n: Int)
    /// The end of the rest after this number of meetings.
    case rested(count: Int)
  }

  package enum Output: MachineOutput {
    case rest(count: Int)
  }

  package struct Parameters: MachineParameters {
    /// The node's name, which is the route of the numbers that the member sends.
    package var id = ""
    /// The member refuses meetings whose number ends with this digit, unless the caller is a bell.
    ///
    /// With -1, the member refuses no meetings.
    package var refuses = -1
    /// The duration of a rest. Unit: microseconds.
    package var rest = 200
    package init() {}

    fileprivate func agrees(_ by: String, _ n: Int) -> Bool {
      by.hasPrefix(bell) || n % 10 != refuses
    }
  }

  /// The prefix of the names of bells. Bells are callers whose meetings no member refuses because
  /// of the number.
  package static let bell = "bell"

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.free(record: Record())) {
      When(state: State.free(record:)) { _ in
        Execute.noOutput
      } transitions: { record in
        On(event: Event.meet(by:n:)) { by, n in
          Guard(predicate: parameters.agrees(by, n))
        } transition: { by, n in
          Transition(to: after(record.meeting(by, n)))
        }
        On(event: Event.number(route:n:)) { route, n in
          Transition(to: State.free(record: record.adding(n, of: route)))
        }
      }

      When(state: State.met(record:)) { _ in
        Execute.noOutput
      } transitions: { record in
        On(event: Event.meet(by:n:)) { by, n in
          Guard(predicate: parameters.agrees(by, n))
        } transition: { by, n in
          Transition(to: after(record.meeting(by, n)))
        }
        On(event: Event.number(route:n:)) { route, n in
          Transition(to: State.free(record: record.adding(n, of: route)))
        }
      }

      When(state: State.resting(record:)) { record in
        Execute(output: Output.rest(count: record.met.count))
      } transitions: { record in
        On(event: Event.rested(count:)) { count in
          // The effect may run twice if the node's process is restarted.
          Guard(predicate: count == record.met.count)
        } transition: { _ in
          Transition(to: State.free(record: record))
        }
      }
    }
  }

  private static func after(_ record: Record) -> State {
    record.met.count.isMultiple(of: 3) ? .resting(record: record) : .met(record: record)
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    LifetimeRecorder.begin(parameters.id)
    return Runtime()
      .map(
        output: Output.rest(count:),
        to: { count in
          try? await Task.sleep(for: .microseconds(parameters.rest))
          return Event.rested(count: count)
        }
      )
      .connectAsSender(
        to: ports.pipe("out"),
        when: OneOf {
          State.met(record:)
          State.resting(record:)
        },
        send: { state in NumberEvent.number(route: parameters.id, n: state.record.met.count) })
  }
}
