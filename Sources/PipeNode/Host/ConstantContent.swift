import PipeMachines
import PipeSupport
import PipeWire

/// Hosts a state that never changes: a stand-in for a machine in tests and previews.
final class ConstantContent: TakesSteps, TakesRequests {
  let description: MachineDescription
  var onEntry: ((_ isCommitted: Bool) -> Void)?
  private let state: JSONValue
  private var isStarted = false
  private var startedAt: Int64 = 0

  init(state: JSONValue, machine: String?) {
    self.state = state
    description = MachineDescription(machine: machine ?? "constant", initial: state)
  }

  func start() {
    isStarted = true
    startedAt = WallClock.nanoseconds
    onEntry?(false)
  }

  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64, reply: @escaping Reply
  ) {
    reply(.refused(.noTransition, version: 0, state: state.bytes))
  }

  func lastStep() -> FeedEntry? {
    guard isStarted else { return nil }
    return FeedEntry(version: 0, time: startedAt, cause: "initial", state: state.bytes)
  }

  func fill(_ status: inout NodeStatus) { status.state = isStarted ? state : nil }
  func stop() {}
}
