import PipeClient
import PipeSystem
import PipeWire

/// What the agent of a node does, which starts the node's process where that is to run; a pure value.
///
/// It runs one process at a time, and none twice: one that it was told to start stays the last one, whatever has become
/// of it, until it is told of a later one.
package struct AgentStateMachine: Sendable {
  package enum Input: Hashable, Sendable {
    case launch(AgentLaunch)
    case signal(AgentSignal)
    /// What has become of ``Action/start(_:)``.
    case started(pid: Int32)
    case startFailed(reason: String)
    /// The process has ended, and all that it wrote has been told.
    case ended(ProcessExit)
    /// The agent itself is to end, and its process in order before it.
    case leave
    /// Another agent has its place.
    case displaced
  }

  package enum Action: Hashable, Sendable {
    case start(AgentLaunch)
    case kill(Signal)
    /// Tell what has changed.
    case report
    /// End the agent.
    case end(isDisplaced: Bool)
  }

  private enum Leaving: Hashable, Sendable { case no, inOrder, displaced }

  /// What it was told to start last.
  package private(set) var process: AgentReport.Process?
  private var leaving = Leaving.no

  package init() {}

  package var isLeaving: Bool { leaving != .no }

  package mutating func handle(_ input: Input) -> [Action] {
    switch input {
    case .launch(let launch): start(launch)
    case .signal(let signal):
      process?.incarnation == signal.incarnation && isRunning
        ? [.kill(Signal(number: signal.number))] : [.report]
    case .started(let pid): become(.running(pid: pid))
    case .startFailed(let reason): become(.notStarted(reason: reason)) + endIfLeaving()
    case .ended(.exited(let code)): become(.exited(code: code)) + endIfLeaving()
    case .ended(.signalled(let number)): become(.signalled(number: number)) + endIfLeaving()
    case .ended: []
    case .leave: leave()
    case .displaced: displace()
    }
  }

  private var isRunning: Bool { process?.isRunning == true }

  private mutating func start(_ launch: AgentLaunch) -> [Action] {
    // What was told twice was told once. While a process runs nobody else is started beside it.
    guard !isLeaving, !isRunning, launch.incarnation > process?.incarnation ?? 0 else {
      return [.report]
    }
    process = AgentReport.Process(incarnation: launch.incarnation, .running(pid: 0))
    return [.start(launch)]
  }

  private mutating func become(_ stage: AgentReport.Process.Stage) -> [Action] {
    process?.stage = stage
    return [.report]
  }

  private func endIfLeaving() -> [Action] {
    isLeaving ? [.end(isDisplaced: leaving == .displaced)] : []
  }

  private mutating func leave() -> [Action] {
    // Asked again, it does not wait.
    let signal: Signal = isLeaving ? .kill : .terminate
    if leaving == .no { leaving = .inOrder }
    return isRunning ? [.report, .kill(signal)] : [.report] + endIfLeaving()
  }

  private mutating func displace() -> [Action] {
    leaving = .displaced
    return isRunning ? [.kill(.kill)] : endIfLeaving()
  }
}
