import PipeMachines
import PipeSupport
import PipeWire

/// Orders the step reports of the nodes of composites by arrival. Combines the reports of one
/// synchronized event into one step of all nodes that have applied the event.
///
/// A node publishes a step only after its coordinators have recorded the report. So if one step
/// causes another, the reports of the two steps arrive in this order. Each combination of states
/// that results from the order of arrival has therefore existed.
package struct CompositeSteps: Sendable {
  /// A received step report.
  package struct Report: Hashable, Sendable {
    package var step: StepReport
    /// The index of the report in the order of arrival at this coordinator.
    package var index: Int64

    package init(_ step: StepReport, index: Int64) {
      self.step = step
      self.index = index
    }

    /// The transaction that the step belongs to; `nil` if the node took the step alone.
    fileprivate var synchronized: TransactionID? {
      switch step.entry {
      case .step, .internal: step.transaction
      case .first, .none: nil
      }
    }

    /// Whether the node has entered a state. `false` for an internal transition.
    var isEntry: Bool { step.entry != .internal }
  }

  /// The progress of a node, according to the reports that were processed.
  package struct Node: Hashable, Sendable {
    /// The state after the last reported step, as JSON; `nil` if the node could not report the
    /// state.
    package var state: [UInt8]?
    /// The transaction up to which the node has applied all transactions that it will ever apply.
    package var completeThrough: TransactionID

    package init(state: [UInt8]?, completeThrough: TransactionID) {
      self.state = state
      self.completeThrough = completeThrough
    }
  }

  /// A step that one or several nodes have taken at the same time.
  package struct Step: Hashable, Sendable {
    /// The reports of the step, by the names of the nodes.
    package var reported: [String: Report]
    package var transaction: TransactionID?
    /// Whether a node has entered a state. `false` if a restarted node has only reported its
    /// current state.
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
    /// The nodes that have reported the event. Their next steps wait for the missing reports.
    package var reported: [String]
    /// The nodes that have not reported the event.
    package var missing: [String]

    package init(_ transaction: TransactionID, reported: [String], missing: [String]) {
      self.transaction = transaction
      self.reported = reported
      self.missing = missing
    }
  }

  /// The progress of the nodes that have reported a step, by name.
  package private(set) var nodesByName: [String: Node]
  private var waitingReports: [String: Queue<Report>]
  private let nodeNames: [String]

  /// - Parameters:
  ///   - names: The nodes that report their steps.
  ///   - recorded: The recorded progress of the nodes. A node may have no record, because each
  ///     process of a node first reports its state and its last transaction.
  package init(of names: [String], recorded: [String: Node] = [:]) {
    nodeNames = names.sorted()
    nodesByName = recorded.filter { names.contains($0.key) }
    waitingReports = Dictionary(uniqueKeysWithValues: Set(names).map { ($0, Queue()) })
  }

  package mutating func append(_ reported: Report, of node: String) {
    waitingReports[node]?.append(reported)
  }

  /// Returns the number of a node's step reports that have not been processed yet.
  package func waitingCount(of node: String) -> Int { waitingReports[node]?.count ?? 0 }

  /// Whether there are reports that ``next(participants:last:)`` has not returned yet.
  package var hasWaiting: Bool { waitingReports.values.contains { !$0.isEmpty } }

  /// Returns the transaction up to which the reports of a node are complete: the node has reported
  /// all its transactions, or will no longer report them.
  package func completeThrough(of node: String) -> TransactionID {
    nodesByName[node]?.completeThrough ?? .zero
  }

  /// Returns the synchronized events whose reports are incomplete, with the nodes that wait.
  /// - Parameter participants: Returns the participants of a transaction; `nil` if they are
  ///   forgotten.
  package func waits(participants: (TransactionID) -> [String]?) -> [Wait] {
    let heads = Set(nodeNames.compactMap { waitingReports[$0]?.first?.synchronized })
    return heads.sorted().compactMap { transaction in
      // A node is not missing if its report of the event waits behind another report of the same
      // node. The other report then causes the wait.
      let missing = (participants(transaction) ?? []).filter { name in
        !isReady(name, for: transaction)
          && waitingReports[name]?.contains { $0.synchronized == transaction } != true
      }
      guard !missing.isEmpty else { return nil }
      let reported = nodeNames.filter { waitingReports[$0]?.first?.synchronized == transaction }
      return Wait(transaction, reported: reported, missing: missing)
    }
  }

  /// Removes and returns the next step. Returns `nil` if there is none, or if the next step waits
  /// for further reports. The order of synchronized events is the order of their first reports.
  /// - Parameters:
  ///   - participants: Returns the participants of a transaction; `nil` if they are forgotten.
  ///   - last: The last transaction that was issued.
  package mutating func next(
    participants: (TransactionID) -> [String]?, last: TransactionID
  ) -> Step? {
    let heads = nodeNames.compactMap { name in
      waitingReports[name]?.first.map { (name, $0.index) }
    }
    guard let first = heads.min(by: { $0.1 < $1.1 })?.0 else { return nil }
    var examined: Set<TransactionID> = []
    guard let name = nextMovableNode(first, participants, &examined),
      let head = waitingReports[name]?.first
    else {
      return nil
    }
    guard let transaction = head.synchronized else { return dequeueStep([name], nil, last) }
    return dequeueStep(
      nodeNames.filter { waitingReports[$0]?.first?.synchronized == transaction }, transaction, last
    )
  }

  /// Returns a node whose next step is ready and must precede the next step of `name`; this node
  /// can be `name` itself. Returns `nil` while no such step is ready.
  /// - Parameter examined: The synchronized events that the search has already examined.
  private func nextMovableNode(
    _ name: String, _ participants: (TransactionID) -> [String]?,
    _ examined: inout Set<TransactionID>
  ) -> String? {
    guard let head = waitingReports[name]?.first else { return nil }
    guard let transaction = head.synchronized else { return name }
    guard examined.insert(transaction).inserted else { return nil }
    let missing = (participants(transaction) ?? []).filter { !isReady($0, for: transaction) }
    if missing.isEmpty { return name }
    // A missing node has reported other steps so far, and will report the event later. So the other
    // steps come first.
    for other in missing {
      if let found = nextMovableNode(other, participants, &examined) { return found }
    }
    return nil
  }

  /// Whether the event can proceed without waiting for a participant: the participant's next report
  /// is about the transaction, the participant will no longer report the transaction, or the
  /// participant never reports steps.
  private func isReady(_ name: String, for transaction: TransactionID) -> Bool {
    guard let waiting = waitingReports[name] else { return true }
    if let reported = waiting.first?.step.transaction, reported >= transaction { return true }
    // The node has reported the transaction, but another of its reports comes first.
    if waiting.contains(where: { $0.synchronized == transaction }) { return false }
    return completeThrough(of: name) >= transaction
  }

  /// Removes the next report of each node in `names`, and returns the step that these reports form.
  private mutating func dequeueStep(
    _ names: [String], _ transaction: TransactionID?, _ last: TransactionID
  ) -> Step {
    var step = Step(reported: [:], transaction: transaction, isEntry: true)
    for name in names {
      guard let reported = waitingReports[name]?.popFirst() else { continue }
      step.reported[name] = reported
      var completeThrough = max(completeThrough(of: name), transaction ?? .zero)
      switch reported.step.entry {
      case .step, .internal: break
      // The node has lost its records, including the records of its earlier transactions. It will
      // not report these transactions again, so they count as complete.
      case .first: completeThrough = max(completeThrough, reported.step.transaction ?? last)
      case .none:
        step.isEntry = false
        completeThrough = max(completeThrough, reported.step.transaction ?? .zero)
      }
      nodesByName[name] = Node(state: reported.step.state, completeThrough: completeThrough)
    }
    return step
  }
}

/// Selects the waits for missing reports that must be logged: only long waits, at growing
/// intervals.
package struct StepWaits: Sendable {
  package typealias Instant = ContinuousClock.Instant

  /// A report about a wait between nodes, for the log.
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

  /// Returns the waits that must be logged now.
  package mutating func checkWaits(_ waits: [CompositeSteps.Wait], at now: Instant) -> [Report] {
    let last = trackedWaits
    trackedWaits = [:]
    return waits.compactMap { wait in
      let since = last[wait.transaction]?.since ?? now
      let due = last[wait.transaction]?.due ?? now + Self.interval
      let isDue = now >= due
      // After each message, the time to the next message doubles.
      trackedWaits[wait.transaction] = (since, isDue ? now + (now - since) : due)
      return isDue ? Report(wait, for: now - since) : nil
    }
  }
}
