import PipeMachines
import PipeSupport
import PipeWire

/// The steps that the nodes of composites report, in the order in which they were received, and a synchronized event
/// as one step of all who have taken it.
///
/// A node lets nobody learn of a step before its coordinators have recorded the report. So a step that follows from
/// another is received after it, and each combination of states that this order goes through has existed.
package struct CompositeSteps: Sendable {
  /// A step that was received.
  package struct Told: Hashable, Sendable {
    package var step: ToldStep
    /// Its place among those of all nodes.
    package var place: Int64

    package init(_ step: ToldStep, place: Int64) {
      self.step = step
      self.place = place
    }

    /// The transaction that the step is a part of.
    fileprivate var synchronized: TransactionID? { step.entry == .step ? step.transaction : nil }
  }

  /// How far a node has got.
  package struct Node: Hashable, Sendable {
    /// The state that its last step led to, as JSON; `nil` where it could not tell that.
    package var state: [UInt8]?
    /// The last transaction that it has taken, or that it cannot take any more.
    package var passed: TransactionID

    package init(state: [UInt8]?, passed: TransactionID) {
      self.state = state
      self.passed = passed
    }
  }

  /// What nodes have done at once, by their names.
  package struct Step: Hashable, Sendable {
    package var told: [String: Told]
    package var transaction: TransactionID?
    /// Whether a state was entered; a node that was started again only stands in one.
    package var isEntry: Bool

    package init(told: [String: Told], transaction: TransactionID?, isEntry: Bool) {
      self.told = told
      self.transaction = transaction
      self.isEntry = isEntry
    }
  }

  /// A synchronized event that some have told of, and others not.
  package struct Wait: Hashable, Sendable {
    package var transaction: TransactionID
    /// Who has told of it, and waits.
    package var told: [String]
    /// Who has not.
    package var missing: [String]

    package init(_ transaction: TransactionID, told: [String], missing: [String]) {
      self.transaction = transaction
      self.told = told
      self.missing = missing
    }
  }

  /// Of the nodes that have told of a step.
  package private(set) var nodes: [String: Node]
  private var waiting: [String: Queue<Told>]
  private let names: [String]
  /// Up to where a new process of a node can tell nothing of its transactions.
  private var begun: [String: TransactionID] = [:]

  /// - Parameters:
  ///   - names: The nodes that tell their steps.
  ///   - recorded: How far they had got. Each process of a node tells first where it begins, so that one
  ///     of which nothing is recorded is still to say what it has passed.
  package init(of names: [String], recorded: [String: Node] = [:]) {
    self.names = names.sorted()
    nodes = recorded.filter { names.contains($0.key) }
    waiting = Dictionary(uniqueKeysWithValues: Set(names).map { ($0, Queue()) })
  }

  package mutating func append(_ told: Told, of node: String) { waiting[node]?.append(told) }

  /// A new process of a node, which has heard of no transaction, has joined.
  /// - Parameter last: The last transaction that was given before.
  package mutating func began(_ node: String, after last: TransactionID) { begun[node] = last }

  /// How many steps of a node wait for those of others.
  package func waitingCount(of node: String) -> Int { waiting[node]?.count ?? 0 }

  /// Whether steps are here that are not taken.
  package var hasWaiting: Bool { waiting.values.contains { !$0.isEmpty } }

  /// The last transaction that a node has told of, or will not any more.
  package func passed(by node: String) -> TransactionID { nodes[node]?.passed ?? .zero }

  /// Who waits for whom.
  /// - Parameter participants: Who has taken a transaction; `nil` where that is forgotten.
  package func waits(participants: (TransactionID) -> [String]?) -> [Wait] {
    let heads = Set(names.compactMap { waiting[$0]?.first?.synchronized })
    return heads.sorted().compactMap { transaction in
      // Who has told of it after something else is waited for because of that.
      let missing = (participants(transaction) ?? []).filter { name in
        !isReady(name, for: transaction)
          && waiting[name]?.contains { $0.synchronized == transaction } != true
      }
      guard !missing.isEmpty else { return nil }
      let told = names.filter { waiting[$0]?.first?.synchronized == transaction }
      return Wait(transaction, told: told, missing: missing)
    }
  }

  /// Takes out the next step; `nil` while there is none, or it waits for what others are still to tell: a
  /// synchronized event that only some have reported has its place where the first of them has.
  /// - Parameters:
  ///   - participants: Who has taken a transaction; `nil` where that is forgotten.
  ///   - last: The last transaction that was given.
  package mutating func next(
    participants: (TransactionID) -> [String]?, last: TransactionID
  ) -> Step? {
    let heads = names.compactMap { name in waiting[name]?.first.map { (name, $0.place) } }
    guard let first = heads.min(by: { $0.1 < $1.1 })?.0 else { return nil }
    var looked: Set<TransactionID> = []
    guard let name = movable(first, participants, &looked), let head = waiting[name]?.first else {
      return nil
    }
    guard let transaction = head.synchronized else { return take([name], nil, last) }
    return take(
      names.filter { waiting[$0]?.first?.synchronized == transaction }, transaction, last)
  }

  /// Whose next step can be taken, so that in the end that of this node can; `nil` while there is none.
  /// - Parameter looked: The synchronized events that were looked at already.
  private func movable(
    _ name: String, _ participants: (TransactionID) -> [String]?,
    _ looked: inout Set<TransactionID>
  ) -> String? {
    guard let head = waiting[name]?.first else { return nil }
    guard let transaction = head.synchronized else { return name }
    guard looked.insert(transaction).inserted else { return nil }
    let missing = (participants(transaction) ?? []).filter { !isReady($0, for: transaction) }
    if missing.isEmpty { return name }
    // They have done it, or will, after what they have reported before.
    for other in missing {
      if let found = movable(other, participants, &looked) { return found }
    }
    return nil
  }

  /// Whether a participant has told of the transaction next, will not any more, or tells nothing here.
  private func isReady(_ name: String, for transaction: TransactionID) -> Bool {
    guard let waiting = waiting[name] else { return true }
    if let told = waiting.first?.step.transaction, told >= transaction { return true }
    // It has told of it, after something else.
    if waiting.contains(where: { $0.synchronized == transaction }) { return false }
    return passed(by: name) >= transaction
  }

  private mutating func take(
    _ names: [String], _ transaction: TransactionID?, _ last: TransactionID
  ) -> Step {
    var step = Step(told: [:], transaction: transaction, isEntry: true)
    for name in names {
      guard let told = waiting[name]?.popFirst() else { continue }
      step.told[name] = told
      var passed = max(passed(by: name), transaction ?? .zero)
      switch told.step.entry {
      case .step: break
      // What it had taken before is gone with what it had recorded.
      case .first: passed = max(passed, begun[name] ?? last)
      case .none:
        step.isEntry = false
        passed = max(passed, told.step.transaction ?? .zero)
      }
      nodes[name] = Node(state: told.step.state, passed: passed)
    }
    return step
  }
}

/// Which of the waits for what nodes are still to tell are worth a line in the log: those that last, and
/// each ever less often.
package struct StepWaits: Sendable {
  package typealias Instant = ContinuousClock.Instant

  /// One to be told.
  package struct Told: Hashable, Sendable {
    package var wait: CompositeSteps.Wait
    package var duration: Duration

    package init(_ wait: CompositeSteps.Wait, for duration: Duration) {
      self.wait = wait
      self.duration = duration
    }

    /// It as the log tells it.
    package var warning: String {
      func list(_ names: [String]) -> String { names.map { "'\($0)'" }.joined(separator: ", ") }
      return "synchronized event \(wait.transaction): \(list(wait.told)) told of it at least "
        + "\(duration.shortText) ago, and \(list(wait.missing)) not yet: until then what "
        + "\(list(wait.told)) did after it counts for no pipe of a composite. Does "
        + "\(wait.missing.count == 1 ? "it" : "each of them") run?"
    }
  }

  private var known: [TransactionID: (since: Instant, due: Instant)] = [:]
  /// Whether somebody is to look again.
  package var isLooking = false

  /// How often it is looked, and how long a wait lasts before it is told first.
  package static let interval: Duration = .seconds(5)

  package init() {}

  /// - Returns: The waits that are to be told now.
  package mutating func look(_ waits: [CompositeSteps.Wait], at now: Instant) -> [Told] {
    let last = known
    known = [:]
    return waits.compactMap { wait in
      let since = last[wait.transaction]?.since ?? now
      let due = last[wait.transaction]?.due ?? now + Self.interval
      let isDue = now >= due
      // Then after twice the time.
      known[wait.transaction] = (since, isDue ? now + (now - since) : due)
      return isDue ? Told(wait, for: now - since) : nil
    }
  }
}
