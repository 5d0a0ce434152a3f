import PipeSystem
import PipeWire

/// The agents that are connected. The functions have no side effects: the caller passes the current
/// instant. The clock of the instants also advances while the host is suspended.
package struct AgentRegistry: Sendable {
  package typealias Instant = ContinuousClock.Instant

  private struct Agent: Sendable {
    var report: AgentReport
    var lastReportAt: Instant
    /// The start of the period in which the agent has sent reports without an interruption.
    var connectedSince: Instant
  }

  /// How the agent that sent a report relates to the node's known agent.
  package enum ReportSender: Hashable, Sendable {
    /// The node's known agent, or the first agent of a node without a known agent.
    case known
    /// A new agent, which replaces the known agent.
    case replacement
    /// An agent that was replaced by another agent before.
    case displaced
  }

  /// An agent that another agent has replaced.
  private struct DisplacedAgent: Sendable {
    /// Whether the process was running according to the agent's last report.
    var isRunning: Bool
    /// The time of the last report that the agent sent after its replacement; without such a
    /// report, the time of the replacement.
    var lastReportAt: Instant
  }

  private var agents: [String: Agent] = [:]
  /// The replaced agents, by node and session.
  private var displacedAgents: [String: [UInt64: DisplacedAgent]] = [:]

  /// The time without a report after which an agent counts as disconnected.
  package static let silenceTimeout: Duration = .seconds(4)
  /// The time after which a replaced agent that sends no report has certainly ended. If the agent
  /// were running, it would have reconnected sooner.
  package static let replacementTimeout: Duration = .seconds(5)

  package init() {}

  package mutating func record(_ report: AgentReport, at now: Instant) -> ReportSender {
    let node = report.node
    if displacedAgents[node]?[report.session] != nil {
      displacedAgents[node]?[report.session] = DisplacedAgent(
        isRunning: report.process?.isRunning == true, lastReportAt: now)
      return .displaced
    }
    let former = agents[node]
    let isSame = former?.report.session == report.session
    let since = former.flatMap {
      isSame && now - $0.lastReportAt < Self.silenceTimeout ? $0.connectedSince : nil
    }
    agents[node] = Agent(report: report, lastReportAt: now, connectedSince: since ?? now)
    guard let former, !isSame else { return .known }
    displacedAgents[node, default: [:]][former.report.session] = DisplacedAgent(
      isRunning: former.report.process?.isRunning == true, lastReportAt: now)
    return .replacement
  }

  /// Returns the last report of a node's agent; `nil` if the agent is not connected.
  package func report(of node: String, at now: Instant) -> AgentReport? {
    agents[node].flatMap { now - $0.lastReportAt < Self.silenceTimeout ? $0.report : nil }
  }

  /// Whether a node's process has certainly ended, because the agent with this session, which ran
  /// the process, was replaced.
  package func hasEnded(session: UInt64, of node: String, at now: Instant) -> Bool {
    guard let agent = agents[node], agent.report.session != session else { return false }
    guard let displaced = displacedAgents[node]?[session] else {
      // The agent of that session has sent no report to this orchestrator. If that agent were
      // running, it would have sent a report.
      return now - agent.connectedSince >= Self.replacementTimeout
    }
    return !displaced.isRunning || now - displaced.lastReportAt >= Self.replacementTimeout
  }

  /// Whether the agent of a node can start a process.
  package func canStart(_ node: String, at now: Instant) -> Bool {
    report(of: node, at: now).map { !$0.isLeaving && $0.process?.isRunning != true } == true
  }

  /// Returns how long the agent of a node has been sending reports without an interruption; zero if
  /// the agent is not connected.
  package func connectionTime(_ node: String, at now: Instant) -> Duration {
    guard let agent = agents[node], now - agent.lastReportAt < Self.silenceTimeout else {
      return .zero
    }
    return now - agent.connectedSince
  }
}
