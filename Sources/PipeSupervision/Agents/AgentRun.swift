import PipeSystem
import PipeWire

/// A process that an agent runs, or is to run.
final class AgentRun {
  /// That of the agent; `nil` where a former orchestrator has started it, and its agent has not been heard.
  let session: UInt64?
  /// `nil` where a former orchestrator has started it.
  let launch: AgentLaunch?
  /// When it was last told to start it.
  var toldAt: ContinuousClock.Instant?
  /// What was sent to it last, until it has ended.
  private(set) var signal: Signal?
  private let send: (Signal) -> Void

  init(
    session: UInt64?, launch: AgentLaunch?, send: @escaping (_ signal: Signal) -> Void
  ) {
    self.session = session
    self.launch = launch
    self.send = send
  }

  func send(_ signal: Signal) {
    self.signal = signal
    send(signal)
  }

  func sendSignalAgain() { if let signal { send(signal) } }
}
