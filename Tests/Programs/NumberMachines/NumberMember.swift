import PipeRuntime

/// Meets other members in synchronized events, and remembers each meeting. In between it takes
/// numbers from pipes. After every third meeting it rests until an effect ends the rest.
package enum NumberMember: Machine {
  /// The events that the member has taken.
  package struct Record: Codable, Hashable, Sendable {
    /// The meetings, oldest first, as the caller and its number: `caller:17`.
    package var met: [String] = []
    /// The numbers from pipes.
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
    /// On this entry it sends the number of its meetings.
    case met(record: Record)
    /// On this entry as well.
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
    /// The rest after this number of meetings is over.
    case rested(count: Int)
  }

  package enum Output: MachineOutput {
    case rest(count: Int)
  }

  package struct Parameters: MachineParameters {
    /// The node's name, which is the route of the numbers that it sends.
    package var id = ""
    /// The last digit of the meetings that it refuses, unless the caller is a bell.
    package var refuses = -1
    /// The duration of a rest. Unit: microseconds.
    package var rest = 200
    package init() {}

    fileprivate func agrees(_ by: String, _ n: Int) -> Bool {
      by.hasPrefix(bell) || n % 10 != refuses
    }
  }

  /// The prefix of callers whose meetings are never refused by their number.
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
          // The effect may run twice if its node has died.
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
