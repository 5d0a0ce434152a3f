import PipeMachines
import PipeSupport
import PipeWire

/// Puts the steps that the nodes of composites tell into one order: each node's steps in its own order, and
/// a synchronized event as one step of all who have taken it.
///
/// The nodes tell them through pipes that are recorded. A step counts as told when it is taken from here,
/// which is recorded together with what follows from it; what waits here is told again by the next process.
package struct CompositeSteps: Sendable {
  /// What has come through a node's pipe.
  package struct Told: Hashable, Sendable {
    package var step: ToldStep
    /// Its place in the pipe.
    package var sequence: UInt64
    package var stream: UInt64

    package init(_ step: ToldStep, sequence: UInt64, stream: UInt64) {
      self.step = step
      self.sequence = sequence
      self.stream = stream
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
  /// Whose step is looked for first: each has its turn.
  private var turn = 0
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

  /// Takes out the next step; `nil` while there is none, or it waits for what others are still to tell.
  /// - Parameters:
  ///   - participants: Who has taken a transaction; `nil` where that is forgotten.
  ///   - last: The last transaction that was given.
  package mutating func next(
    participants: (TransactionID) -> [String]?, last: TransactionID
  ) -> Step? {
    let start = turn
    for offset in names.indices {
      let place = (start + offset) % names.count
      guard let head = waiting[names[place]]?.first else { continue }
      var takers = [names[place]]
      if let transaction = head.synchronized {
        let others = participants(transaction) ?? []
        guard others.allSatisfy({ isReady($0, for: transaction) }) else { continue }
        takers = names.filter { waiting[$0]?.first?.synchronized == transaction }
      }
      turn = place + 1
      return take(takers, head.synchronized, last)
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
