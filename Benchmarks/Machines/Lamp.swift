import Glibc
import PipeRuntime

/// Goes on and off, together with others.
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

/// The payload of a measured event: `{"sequence":1000000,"text":"…"}`, 64 bytes of JSON.
enum Payload {
  /// Seven digits from the first to the last, so that every payload is as long.
  static let firstSequence = 1_000_000
  static let text = "abcdefghijklmnopqrstuvwxyz01234567"
  static let byteCount = 64
}

/// A clock that machines read by an effect, since `reduce` is pure.
enum Clock {
  /// Unit: nanoseconds, from some fixed instant.
  static var nanoseconds: Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
  }
}
