import Glibc
import PipeSystem
import PipeTransport
import PipeWire

/// The topology directory, which clients request.
extension Supervisor {
  /// The maximum wait for the statuses of nodes. After this time, the topology directory is sent
  /// without the missing statuses.
  private static let surveyTimeout: Duration = .milliseconds(300)
  /// The maximum wait for the statuses of nodes that are computing or waiting for a processor.
  private static let busyTimeout: Duration = .seconds(2)
  /// The interval at which the orchestrator checks whether the nodes that have not answered are
  /// still busy.
  private static let busyPause: Duration = .milliseconds(50)

  /// Asks all nodes for their statuses. Answers when all nodes have replied, or when the maximum
  /// wait is over.
  func requestStatuses(for requester: Requester) {
    guard let number = survey.join(requester, nodes: runningNodes) else { return }
    begin(survey: number)
  }

  private var runningNodes: Set<String> {
    Set(processes.nodes.filter { lifecycle[$0]?.state == .running })
  }

  private func begin(survey number: UInt64) {
    pingAll(sequence: number)
    if runningNodes.isEmpty { return endSurvey(number) }
    awaitAnswers(to: number, for: Self.surveyTimeout, until: .now + Self.busyTimeout)
  }

  private func awaitAnswers(
    to number: UInt64, for pause: Duration, until limit: ContinuousClock.Instant
  ) {
    let due = ContinuousClock.now + pause
    loop.schedule(after: pause, for: self) { supervisor in
      // If this process was delayed, it may not have read answers that have already arrived.
      let isLate = .now - due > Self.busyPause
      let missing = supervisor.survey.missingNodes(in: number)
      guard isLate || missing.contains(where: supervisor.isBusy), .now < limit else {
        return supervisor.endSurvey(number)
      }
      supervisor.awaitAnswers(to: number, for: Self.busyPause, until: limit)
    }
  }

  /// Whether the process of a node is running on a processor, or is waiting for a processor.
  private func isBusy(_ node: String) -> Bool {
    guard let pid = lifecycle[node]?.pid else { return false }
    return RunQueueSampler.threads(of: pid).values.contains(where: \.isRunnable)
  }

  func endSurvey(_ number: UInt64) {
    let requesters = survey.end(number)
    guard !requesters.isEmpty else { return }
    let directory = directory()
    for requester in requesters { control.answer(.directory(directory), to: requester) }
    if let next = survey.beginNextRound(nodes: runningNodes) { begin(survey: next) }
  }

  /// Returns the topology directory with the data that is known now.
  package func directory() -> TopologyDirectory {
    let nodes = plan.nodes.flatMap(directoryRows)
    return TopologyDirectory(
      topology: plan.topology, file: plan.topologyFile, pid: getpid(), phase: lifecycle.state.name,
      isRunning: lifecycle.state == .running
        && nodes.allSatisfy {
          $0.isRunning || lifecycle[plan.process(of: $0.name)]?.state.hasEnded == true
        },
      nodes: nodes, pipes: plan.pipes)
  }

  /// Returns the current row of a node. For a coordinator, returns the rows of its composites.
  private func directoryRows(of node: LaunchPlan.Node) -> [NodeInformation] {
    var information = node.information
    let facts = facts[node.name]
    if let lifecycle = lifecycle[node.name] {
      information.phase =
        lifecycle.state.hasEnded && self.lifecycle.isReturning(node.name)
        ? "starting" : lifecycle.state.name
      information.isRunning = lifecycle.state == .running
      information.pid =
        !node.isRemote || lifecycle.pid == nil ? lifecycle.pid : facts?.remotePid
      information.incarnation = UInt64(lifecycle.incarnation)
      information.restarts = UInt64(max(lifecycle.starts - 1, 0))
    }
    if let deployedNodes {
      let endpoints = deployedNodes.endpoints(of: node.name)
      information.inbox = endpoints?.inbox ?? ""
      information.feed = endpoints?.feed ?? ""
      information.key = deployedNodes.key(of: node.name)
    }
    information.reason = facts?.reason ?? facts?.statusError?.description
    information.startedAt = information.pid == nil ? nil : facts?.startedAt
    information.programVersion =
      facts?.launch?.version
      ?? node.host.flatMap {
        self.facts[$0]?.launch?.version
      }
    information.status = facts?.status
    information.stateFields = facts?.description?.stateFields?.map(\.name)
    information.doubts = facts?.status?.doubt.map { [$0] } ?? []
    guard !node.composites.isEmpty else { return [information] }
    return node.composites.map { composite in
      var row = information.row(of: composite)
      row.doubts = composite.nodes.compactMap { self.facts[$0]?.status?.doubt }
      return row
    }
  }

  /// The last lines of the nodes that failed.
  package var lastLines: [(node: String, lines: [String])] {
    plan.nodes.compactMap { node in
      guard case .failed = lifecycle[node.name]?.state, let lines = facts[node.name]?.lastLines
      else { return nil }
      return (node.name, lines)
    }
  }
}

/// The rounds in which the orchestrator asks all nodes for their statuses, so that the topology
/// directory contains current values.
struct StatusSurvey {
  private struct Round {
    let number: UInt64
    var missingNodes: Set<String>
    var requesters: [Requester]
  }

  private var round: Round?
  /// The clients that sent their requests during the round. These clients wait for the next round,
  /// because replies of this round may be older than the requests.
  private var lateRequesters: [Requester] = []
  /// The number of the last round. Heartbeats have the number 0, which belongs to no round.
  private var lastNumber: UInt64 = 0

  /// Adds a client to the next round.
  /// - Returns: The number of the round that starts; `nil` if a round is already in progress.
  mutating func join(_ requester: Requester, nodes: Set<String>) -> UInt64? {
    guard round == nil else {
      lateRequesters.append(requester)
      return nil
    }
    return begin([requester], nodes)
  }

  /// Records the reply of a node.
  /// - Returns: Whether all nodes have replied now.
  mutating func recordReply(of node: String, in number: UInt64) -> Bool {
    guard round?.number == number, round?.missingNodes.remove(node) != nil else { return false }
    return round?.missingNodes.isEmpty == true
  }

  /// Returns the nodes that have not replied in a round. Returns an empty set if the round has
  /// ended.
  func missingNodes(in number: UInt64) -> Set<String> {
    round.flatMap { $0.number == number ? $0.missingNodes : nil } ?? []
  }

  /// Ends a round, even if replies are missing.
  /// - Returns: The clients to answer; an empty array if the round had already ended.
  mutating func end(_ number: UInt64) -> [Requester] {
    guard let round, round.number == number else { return [] }
    self.round = nil
    return round.requesters
  }

  /// Starts a round for the clients that asked during the last round.
  /// - Returns: The number of the round; `nil` if there are no such clients.
  mutating func beginNextRound(nodes: Set<String>) -> UInt64? {
    guard round == nil, !lateRequesters.isEmpty else { return nil }
    defer { lateRequesters = [] }
    return begin(lateRequesters, nodes)
  }

  private mutating func begin(_ requesters: [Requester], _ nodes: Set<String>) -> UInt64 {
    lastNumber += 1
    round = Round(number: lastNumber, missingNodes: nodes, requesters: requesters)
    return lastNumber
  }
}
