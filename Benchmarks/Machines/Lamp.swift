import Glibc
import PipeRuntime

/// A lamp that is switched on or off together with other lamps.
enum Lamp: Machine {
  enum State: MachineState {
    case off
    case on
  }

  enum Event: MachineEvent { case press }

  static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.off) {
      When(state: State.off) {
        On(event: Event.press) { Transition(to: State.on) }
      }

      When(state: State.on) {
        On(event: Event.press) { Transition(to: State.off) }
      }
    }
  }
}

/// The payload of a measured event: `{"sequence":1000000,"text":"…"}`, which has 64 bytes of JSON.
enum Payload {
  /// The first sequence number. All sequence numbers have seven digits, so that all payloads have
  /// the same length.
  static let firstSequence = 1_000_000
  static let text = "abcdefghijklmnopqrstuvwxyz01234567"
  static let byteCount = 64
}

/// A clock that machines read in an effect, because transitions must not read clocks.
enum Clock {
  /// The time since a fixed instant. Unit: nanoseconds.
  static var nanoseconds: Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
  }
}
