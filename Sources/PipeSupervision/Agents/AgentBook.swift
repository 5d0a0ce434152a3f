import PipeSystem
import PipeWire

/// The agents that are connected; a pure value. Instants are of a clock that also runs while the
/// machine sleeps.
package struct AgentRegistry: Sendable {
  package typealias Instant = ContinuousClock.Instant

  private struct Agent: Sendable {
    var report: AgentReport
    var lastReportAt: Instant
    /// Since when the agent has sent reports without a gap.
    var connectedSince: Instant
  }

  /// The agent that sent a report.
  package enum ReportSender: Hashable, Sendable {
    /// The known agent of the node, or its first one.
    case present
    /// A new agent, which replaces the known one.
    case another
    /// An agent that was replaced by another one.
    case displaced
  }

  /// An agent that was replaced by another one.
  private struct DisplacedAgent: Sendable {
    /// Whether its last report said that its process runs.
    var isRunning: Bool
    /// When it sent its last report, or when the other agent replaced it.
    var lastReportAt: Instant
  }

  private var agents: [String: Agent] = [:]
  /// The replaced agents, by node and session.
  private var displaced: [String: [UInt64: DisplacedAgent]] = [:]

  /// The time without a report after which an agent counts as disconnected.
  package static let silence: Duration = .seconds(4)
  /// The time without a report after which a replaced agent has certainly ended. Otherwise, it would
  /// have reconnected to the orchestrator.
  package static let replacementTimeout: Duration = .seconds(5)

  package init() {}

  package mutating func take(_ report: AgentReport, at now: Instant) -> ReportSender {
    let node = report.node
    if displaced[node]?[report.session] != nil {
      displaced[node]?[report.session] = DisplacedAgent(
        isRunning: report.process?.isRunning == true, lastReportAt: now)
      return .displaced
    }
    let former = agents[node]
    let isSame = former?.report.session == report.session
    let since = former.flatMap {
      isSame && now - $0.lastReportAt < Self.silence ? $0.connectedSince : nil
    }
    agents[node] = Agent(report: report, lastReportAt: now, connectedSince: since ?? now)
    guard let former, !isSame else { return .present }
    displaced[node, default: [:]][former.report.session] = DisplacedAgent(
      isRunning: former.report.process?.isRunning == true, lastReportAt: now)
    return .another
  }

  /// Returns the last report of a node's agent; `nil` if the agent is not connected.
  package func report(of node: String, at now: Instant) -> AgentReport? {
    agents[node].flatMap { now - $0.lastReportAt < Self.silence ? $0.report : nil }
  }

  /// Whether the process of an agent's session has ended, because another agent has replaced that agent.
  package func hasEnded(session: UInt64, of node: String, at now: Instant) -> Bool {
    guard let agent = agents[node], agent.report.session != session else { return false }
    guard let displaced = displaced[node]?[session] else {
      // The agent of that session has never sent a report. It would have done so if it were running.
      return now - agent.connectedSince >= Self.replacementTimeout
    }
    return !displaced.isRunning || now - displaced.lastReportAt >= Self.replacementTimeout
  }

  /// Whether the agent of a node can start a process.
  package func canStart(_ node: String, at now: Instant) -> Bool {
    report(of: node, at: now).map { !$0.isLeaving && $0.process?.isRunning != true } == true
  }

  /// Returns how long the agent of a node has sent reports without a gap.
  package func connectionTime(_ node: String, at now: Instant) -> Duration {
    guard let agent = agents[node], now - agent.lastReportAt < Self.silence else { return .zero }
    return now - agent.connectedSince
  }
}
