import Glibc
import PipeRuntime

/// The versions of the machines `Parcel` and `Shipper` in one executable. The environment variable
/// `PARCEL` selects the version, as if the program was built from other sources.
enum ParcelVersion: String {
  case first = "1"
  case second = "2"
  case third = "3"
  /// Version 2, without the declaration of its schema version and migrations.
  case undeclared
  /// Version 2, whose migration of the address `bad` does not end, traps, or throws an error.
  case looping, trapping, throwing

  static var current: ParcelVersion {
    getenv("PARCEL").flatMap { ParcelVersion(rawValue: String(cString: $0)) } ?? .first
  }

  static var machines: [any Machine.Type] {
    switch current {
    case .first: [ParcelV1.self, ShipperV1.self]
    case .second: [ParcelV2.self, ShipperV2.self]
    case .third: [ParcelV3.self, ShipperV2.self]
    case .undeclared: [UndeclaredParcel.self, ShipperV2.self]
    case .looping, .trapping, .throwing: [BadParcel.self, ShipperV2.self]
    }
  }
}

package enum ParcelV1: Machine {
  package static let name = "Parcel"
  package enum State: MachineState, Equatable {
    case new
    case sent(to: String, steps: Int)
    /// Refuses the events `send`. An effect of this state sends `ping`.
    case held(steps: Int)
  }
  package enum Event: MachineEvent {
    case send(id: String, to: String)
    case hold(id: String)
    case release(id: String)
    case ping
  }
  package enum Output: MachineOutput { case wait }

  package struct Parameters: MachineParameters {
    /// The duration of the effect. Unit: milliseconds.
    package var wait = 0
    package init() {}
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.new) {
      When(state: State.new) { _ in
        Execute.noOutput
      } transitions: { _ in
        On(event: Event.send(id:to:)) { _, to in Transition(to: State.sent(to: to, steps: 1)) }
      }
      When(state: State.sent(to:steps:)) { _, _ in
        Execute.noOutput
      } transitions: { _, steps in
        On(event: Event.send(id:to:)) { _, to in
          Transition(to: State.sent(to: to, steps: steps + 1))
        }
        On(event: Event.hold(id:)) { _ in Transition(to: State.held(steps: steps)) }
      }
      When(state: State.held(steps:)) { _ in
        Execute(output: Output.wait)
      } transitions: { steps in
        On(event: Event.release(id:)) { _ in Transition(to: State.sent(to: "", steps: steps)) }
        On(event: Event.ping) { Transition(to: State.sent(to: "ping", steps: steps)) }
      }
    }
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime()
      .map(output: Output.wait) { () -> Event? in
        try? await EffectClock.sleep(for: .milliseconds(parameters.wait))
        return .ping
      }
      .connectAsReceiver(to: ports.pipe("in"))
  }
}

/// Version 2, which renames the state `sent` and its value, adds a value, and renames the event
/// `send`.
package enum ParcelV2: Machine {
  package static let name = "Parcel"
  package static let schema = 2
  package static let migrations = [
    // Not idempotent, so that tests notice a state that is migrated twice.
    Migration(from: 1) { (old: ParcelV1.State) -> State in
      switch old {
      case .new: .new
      case .sent(let to, let steps): .shipped(address: to, steps: steps + 100, by: "van")
      case .held(let steps): .held(steps: steps + 100)
      }
    },
    Migration(from: 1, of: .events, Renamed("send", to: "ship")),
    Migration(from: 1, of: .parameters, Renamed("wait", to: "milliseconds")),
  ]

  package enum State: MachineState, Equatable {
    case new
    case shipped(address: String, steps: Int, by: String)
    case held(steps: Int)
  }
  package enum Event: MachineEvent {
    case ship(id: String, to: String)
    case hold(id: String)
    case release(id: String)
    case ping
  }
  package typealias Output = ParcelV1.Output

  package struct Parameters: MachineParameters {
    package var milliseconds = 0
    package init() {}
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.new) {
      When(state: State.new) { _ in
        Execute.noOutput
      } transitions: { _ in
        On(event: Event.ship(id:to:)) { _, to in
          Transition(to: State.shipped(address: to, steps: 1, by: "car"))
        }
      }
      When(state: State.shipped(address:steps:by:)) { _, _, _ in
        Execute.noOutput
      } transitions: { _, steps, by in
        On(event: Event.ship(id:to:)) { _, to in
          Transition(to: State.shipped(address: to, steps: steps + 1, by: by))
        }
        On(event: Event.hold(id:)) { _ in Transition(to: State.held(steps: steps)) }
      }
      When(state: State.held(steps:)) { _ in
        Execute(output: Output.wait)
      } transitions: { steps in
        On(event: Event.release(id:)) { _ in
          Transition(to: State.shipped(address: "", steps: steps, by: "hand"))
        }
        On(event: Event.ping) {
          Transition(to: State.shipped(address: "ping", steps: steps, by: "hand"))
        }
      }
    }
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime()
      .map(output: Output.wait) { () -> Event? in
        try? await EffectClock.sleep(for: .milliseconds(parameters.milliseconds))
        return .ping
      }
      .connectAsReceiver(to: ports.pipe("in"))
  }
}

/// Version 3, whose only state is a struct.
package enum ParcelV3: Machine {
  package static let name = "Parcel"
  package static let schema = 3
  package static let migrations =
    ParcelV2.migrations + [
      Migration(from: 2) { (old: ParcelV2.State) -> State in
        switch old {
        case .new: State()
        case .shipped(let address, let steps, _): State(address: address, steps: steps + 1000)
        case .held(let steps): State(address: "held", steps: steps + 1000)
        }
      }
    ]

  package struct State: MachineState, Equatable {
    package var address = ""
    package var steps = 0
  }
  package typealias Event = ParcelV2.Event

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(
      initial: State(),
      reduce: { state, event in
        guard case .ship(_, let to) = event else { return state }
        return State(address: to, steps: state.steps + 1)
      })
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime().connectAsReceiver(to: ports.pipe("in"))
  }
}

/// Version 2, without the declaration of its schema version and migrations.
package enum UndeclaredParcel: Machine {
  package static let name = "Parcel"
  package typealias State = ParcelV2.State
  package typealias Event = ParcelV2.Event
  package typealias Output = ParcelV2.Output
  package typealias Parameters = ParcelV2.Parameters

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    ParcelV2.stateMachine(parameters)
  }
  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> { ParcelV2.runtime(parameters, ports) }
}

/// Version 2 with a migration that fails for the address `bad`.
package enum BadParcel: Machine {
  package static let name = "Parcel"
  package static let schema = 2
  package typealias State = ParcelV2.State
  package typealias Event = ParcelV2.Event
  package typealias Output = ParcelV2.Output
  package typealias Parameters = ParcelV2.Parameters

  private struct Unknown: Error, CustomStringConvertible {
    let description = "no such address"
  }

  package static let migrations = [
    Migration(from: 1) { (old: ParcelV1.State) -> State in
      guard case .sent(let to, let steps) = old else { return .new }
      if to == "bad" {
        switch ParcelVersion.current {
        case .looping: while getenv("PARCEL") != nil {}
        case .trapping: fatalError("a migration traps on purpose")
        default: throw Unknown()
        }
      }
      return .shipped(address: to, steps: steps, by: "van")
    }
  ]

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    ParcelV2.stateMachine(parameters)
  }
  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> { ParcelV2.runtime(parameters, ports) }
}

/// Sends numbered events to a parcel.
package enum ShipperV1: Machine {
  package static let name = "Shipper"
  package enum State: MachineState, Equatable { case sent(n: Int) }
  package enum Event: MachineEvent { case next(id: String) }

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.sent(n: 0)) {
      When(state: State.sent(n:)) { _ in
        Execute.noOutput
      } transitions: { n in
        On(event: Event.next(id:)) { _ in Transition(to: State.sent(n: n + 1)) }
      }
    }
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime().connectAsSender(
      to: ports.pipe("out"), when: State.sent(n:),
      send: { n in ParcelV1.Event.send(id: "a", to: "v1 \(n)") })
  }
}

/// Sends events of the second version.
package enum ShipperV2: Machine {
  package static let name = "Shipper"
  package typealias State = ShipperV1.State
  package typealias Event = ShipperV1.Event

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Never> { ShipperV1.stateMachine(parameters) }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime().connectAsSender(
      to: ports.pipe("out"), when: State.sent(n:),
      send: { n in ParcelV2.Event.ship(id: "a", to: "v2 \(n)") })
  }
}
