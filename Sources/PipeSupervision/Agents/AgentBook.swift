import PipeSystem
import PipeWire

/// Which agents are there, and since when; a pure value. Instants are those of a clock that goes on.
package struct AgentBook: Sendable {
  package typealias Instant = ContinuousClock.Instant

  private struct Agent: Sendable {
    var report: AgentReport
    var lastHeard: Instant
    /// Since when it has been heard without a gap.
    var heardSince: Instant
  }

  /// Whose report it is.
  package enum Arrival: Hashable, Sendable {
    /// That of the agent which is known, or of the first one.
    case present
    /// That of another one in its place.
    case another
    /// That of one which another has displaced.
    case displaced
  }

  /// One in whose place another is.
  private struct Displaced: Sendable {
    /// Whether it has said last that its process runs.
    var isRunning: Bool
    /// When it was heard last, or when the other one came.
    var lastHeard: Instant
  }

  private var agents: [String: Agent] = [:]
  /// By node and session.
  private var displaced: [String: [UInt64: Displaced]] = [:]

  /// An agent that says nothing for so long is not there.
  package static let silence: Duration = .seconds(4)
  /// One in whose place another is, and that says nothing for so long, has ended: else it would have looked for the
  /// orchestrator again.
  package static let patience: Duration = .seconds(5)

  package init() {}

  package mutating func take(_ report: AgentReport, at now: Instant) -> Arrival {
    let node = report.node
    if displaced[node]?[report.session] != nil {
      displaced[node]?[report.session] = Displaced(
        isRunning: report.process?.isRunning == true, lastHeard: now)
      return .displaced
    }
    let former = agents[node]
    let isSame = former?.report.session == report.session
    let since = former.flatMap { isSame && now - $0.lastHeard < Self.silence ? $0.heardSince : nil }
    agents[node] = Agent(report: report, lastHeard: now, heardSince: since ?? now)
    guard let former, !isSame else { return .present }
    displaced[node, default: [:]][former.report.session] = Displaced(
      isRunning: former.report.process?.isRunning == true, lastHeard: now)
    return .another
  }

  /// What the agent of a node has said last; `nil` where it is not there.
  package func report(of node: String, at now: Instant) -> AgentReport? {
    agents[node].flatMap { now - $0.lastHeard < Self.silence ? $0.report : nil }
  }

  /// Whether what the agent of a session has run has ended, since another agent is in its place.
  package func hasEnded(session: UInt64, of node: String, at now: Instant) -> Bool {
    guard let agent = agents[node], agent.report.session != session else { return false }
    guard let displaced = displaced[node]?[session] else {
      // It was never heard here, and would have been if it were there.
      return now - agent.heardSince >= Self.patience
    }
    return !displaced.isRunning || now - displaced.lastHeard >= Self.patience
  }

  /// Whether a process can be started by the agent of a node.
  package func canStart(_ node: String, at now: Instant) -> Bool {
    report(of: node, at: now).map { !$0.isLeaving && $0.process?.isRunning != true } == true
  }

  /// How long the agent of a node has been heard without a gap.
  package func timeHeard(_ node: String, at now: Instant) -> Duration {
    guard let agent = agents[node], now - agent.lastHeard < Self.silence else { return .zero }
    return now - agent.heardSince
  }
}
