import PipeMachines
import PipeSupport
import PipeWire

/// Orders the step reports of the nodes of composites by arrival, and combines a synchronized event
/// into one step of all nodes that have taken it.
///
/// A node reveals a step only after its coordinators have recorded the report. So a step that
/// follows from another is received after it, and each combination of states in this order has
/// existed.
package struct CompositeSteps: Sendable {
  /// A received step report.
  package struct Report: Hashable, Sendable {
    package var step: StepReport
    /// The index of the report among the reports of all nodes.
    package var index: Int64

    package init(_ step: StepReport, index: Int64) {
      self.step = step
      self.index = index
    }

    /// The transaction that the step is a part of.
    fileprivate var synchronized: TransactionID? { step.entry == .step ? step.transaction : nil }
  }

  /// The progress of a node.
  package struct Node: Hashable, Sendable {
    /// The state that the last step led to, as JSON; `nil` if the node could not report it.
    package var state: [UInt8]?
    /// The last transaction that the node has taken, or can no longer take.
    package var passed: TransactionID

    package init(state: [UInt8]?, passed: TransactionID) {
      self.state = state
      self.passed = passed
    }
  }

  /// A simultaneous step of one or more nodes, by their names.
  package struct Step: Hashable, Sendable {
    package var reported: [String: Report]
    package var transaction: TransactionID?
    /// Whether a state was entered. A restarted node only reports the state that it is in.
    package var isEntry: Bool

    package init(reported: [String: Report], transaction: TransactionID?, isEntry: Bool) {
      self.reported = reported
      self.transaction = transaction
      self.isEntry = isEntry
    }
  }

  /// A synchronized event that some nodes have reported, and others have not.
  package struct Wait: Hashable, Sendable {
    package var transaction: TransactionID
    /// The nodes that have reported the event, and wait.
    package var reported: [String]
    /// The nodes that have not reported the event.
    package var missing: [String]

    package init(_ transaction: TransactionID, reported: [String], missing: [String]) {
      self.transaction = transaction
      self.reported = reported
      self.missing = missing
    }
  }

  /// The progress of the nodes that have reported a step.
  package private(set) var nodes: [String: Node]
  private var waiting: [String: Queue<Report>]
  private let names: [String]
  /// The last transaction that a new process of a node can report nothing about.
  private var lastBeforeStart: [String: TransactionID] = [:]

  /// - Parameters:
  ///   - names: The nodes that report their steps.
  ///   - recorded: The recorded progress of the nodes. Each process of a node first reports where
  ///     it begins, so a node without a record still reports what it has passed.
  package init(of names: [String], recorded: [String: Node] = [:]) {
    self.names = names.sorted()
    nodes = recorded.filter { names.contains($0.key) }
    waiting = Dictionary(uniqueKeysWithValues: Set(names).map { ($0, Queue()) })
  }

  package mutating func append(_ reported: Report, of node: String) {
    waiting[node]?.append(reported)
  }

  /// Notes that a new process of a node has joined, which knows of no transaction.
  /// - Parameter last: The last transaction that was issued before.
  package mutating func began(_ node: String, after last: TransactionID) {
    lastBeforeStart[node] = last
  }

  /// Returns the number of steps of a node that wait for steps of other nodes.
  package func waitingCount(of node: String) -> Int { waiting[node]?.count ?? 0 }

  /// Whether received steps have not been taken.
  package var hasWaiting: Bool { waiting.values.contains { !$0.isEmpty } }

  /// Returns the last transaction that a node has reported, or will no longer report.
  package func passed(by node: String) -> TransactionID { nodes[node]?.passed ?? .zero }

  /// Returns which nodes wait for which.
  /// - Parameter participants: Returns the participants of a transaction; `nil` if they are
  ///   forgotten.
  package func waits(participants: (TransactionID) -> [String]?) -> [Wait] {
    let heads = Set(names.compactMap { waiting[$0]?.first?.synchronized })
    return heads.sorted().compactMap { transaction in
      // A node that has reported the event behind another step is not missing: it waits because of
      // that step.
      let missing = (participants(transaction) ?? []).filter { name in
        !isReady(name, for: transaction)
          && waiting[name]?.contains { $0.synchronized == transaction } != true
      }
      guard !missing.isEmpty else { return nil }
      let reported = names.filter { waiting[$0]?.first?.synchronized == transaction }
      return Wait(transaction, reported: reported, missing: missing)
    }
  }

  /// Removes and returns the next step; `nil` while there is none, or while it waits for other
  /// reports. A synchronized event that only some nodes have reported takes the position of its
  /// first report.
  /// - Parameters:
  ///   - participants: Returns the participants of a transaction; `nil` if they are forgotten.
  ///   - last: The last transaction that was issued.
  package mutating func next(
    participants: (TransactionID) -> [String]?, last: TransactionID
  ) -> Step? {
    let heads = names.compactMap { name in waiting[name]?.first.map { (name, $0.index) } }
    guard let first = heads.min(by: { $0.1 < $1.1 })?.0 else { return nil }
    var examined: Set<TransactionID> = []
    guard let name = nextMovableNode(first, participants, &examined),
      let head = waiting[name]?.first
    else {
      return nil
    }
    guard let transaction = head.synchronized else { return take([name], nil, last) }
    return take(
      names.filter { waiting[$0]?.first?.synchronized == transaction }, transaction, last)
  }

  /// Returns the node whose next step can be taken, so that eventually the step of `name` can;
  /// `nil` while there is none.
  /// - Parameter examined: The synchronized events that were examined already.
  private func nextMovableNode(
    _ name: String, _ participants: (TransactionID) -> [String]?,
    _ examined: inout Set<TransactionID>
  ) -> String? {
    guard let head = waiting[name]?.first else { return nil }
    guard let transaction = head.synchronized else { return name }
    guard examined.insert(transaction).inserted else { return nil }
    let missing = (participants(transaction) ?? []).filter { !isReady($0, for: transaction) }
    if missing.isEmpty { return name }
    // The missing nodes have taken the event, or will, after the steps that they have reported
    // before.
    for other in missing {
      if let found = nextMovableNode(other, participants, &examined) { return found }
    }
    return nil
  }

  /// Whether a participant's next report is the transaction, or it will no longer report it, or it
  /// reports no steps here.
  private func isReady(_ name: String, for transaction: TransactionID) -> Bool {
    guard let waiting = waiting[name] else { return true }
    if let reported = waiting.first?.step.transaction, reported >= transaction { return true }
    // The node has reported the transaction behind another step.
    if waiting.contains(where: { $0.synchronized == transaction }) { return false }
    return passed(by: name) >= transaction
  }

  private mutating func take(
    _ names: [String], _ transaction: TransactionID?, _ last: TransactionID
  ) -> Step {
    var step = Step(reported: [:], transaction: transaction, isEntry: true)
    for name in names {
      guard let reported = waiting[name]?.popFirst() else { continue }
      step.reported[name] = reported
      var passed = max(passed(by: name), transaction ?? .zero)
      switch reported.step.entry {
      case .step: break
      // Transactions that the node had taken before are lost with its records.
      case .first: passed = max(passed, lastBeforeStart[name] ?? last)
      case .none:
        step.isEntry = false
        passed = max(passed, reported.step.transaction ?? .zero)
      }
      nodes[name] = Node(state: reported.step.state, passed: passed)
    }
    return step
  }
}

/// Selects the waits for missing reports to log: only long waits, each at growing intervals.
package struct StepWaits: Sendable {
  package typealias Instant = ContinuousClock.Instant

  /// A wait to log.
  package struct Report: Hashable, Sendable {
    package var wait: CompositeSteps.Wait
    package var duration: Duration

    package init(_ wait: CompositeSteps.Wait, for duration: Duration) {
      self.wait = wait
      self.duration = duration
    }

    /// The log message.
    package var warning: String {
      func list(_ names: [String]) -> String { names.map { "'\($0)'" }.joined(separator: ", ") }
      return "synchronized event \(wait.transaction): reported by \(list(wait.reported)) at least "
        + "\(duration.shortText) ago, but not yet by \(list(wait.missing)); until then, the "
        + "pipes of composites do not see the later steps of \(list(wait.reported)); "
        + "\(wait.missing.count == 1 ? "is" : "are") \(list(wait.missing)) running?"
    }
  }

  private var trackedWaits: [TransactionID: (since: Instant, due: Instant)] = [:]
  /// Whether a check is scheduled.
  package var isCheckScheduled = false

  /// The interval between checks, and the duration of a wait before it is first logged.
  package static let interval: Duration = .seconds(5)

  package init() {}

  /// - Returns: The waits to log now.
  package mutating func checkWaits(_ waits: [CompositeSteps.Wait], at now: Instant) -> [Report] {
    let last = trackedWaits
    trackedWaits = [:]
    return waits.compactMap { wait in
      let since = last[wait.transaction]?.since ?? now
      let due = last[wait.transaction]?.due ?? now + Self.interval
      let isDue = now >= due
      // The next message follows after twice the time.
      trackedWaits[wait.transaction] = (since, isDue ? now + (now - since) : due)
      return isDue ? Report(wait, for: now - since) : nil
    }
  }
}
