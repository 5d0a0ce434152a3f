import PipeRuntime

/// The causal order of the actions of several nodes.
///
/// Processes have no common clock. Three facts are certain. The order of each node's actions is
/// known. A receiver processes an event after the sender has put the event into the pipe. A node
/// acts only while its pipes have capacity, so the receivers have removed enough events before.
/// Every total order that agrees with these facts is a possible run.
package struct RunOrder {
  package typealias Item = RunTrace.Item

  /// A pipe, with the properties that determine the order of actions.
  package struct Pipe: Sendable {
    package var name: String
    package var sender: String
    package var receiver: String
    package var capacity: Int
    /// The number of events in the pipe at the beginning of the trace.
    package var initialCount: Int

    package init(
      name: String, sender: String, receiver: String, capacity: Int, initialCount: Int = 0
    ) {
      self.name = name
      self.sender = sender
      self.receiver = receiver
      self.capacity = capacity
      self.initialCount = initialCount
    }
  }

  /// The error for a cycle of actions, in which each action depends on another action of the cycle.
  /// No run can contain such actions.
  package struct Cycle: Error, Hashable, CustomStringConvertible {
    package let items: [Item]

    package var description: String {
      "each of these needs another one before it: "
        + items.prefix(6).map { "\($0)" }.joined(separator: "; ")
    }
  }

  private let items: [Item]
  /// For each action, the actions that it directly follows.
  private var predecessors: [Set<Int>]
  /// The actions with a predecessor that was not reported, and all actions that follow these.
  private var unorderedItems: Set<Int> = []

  /// - Parameter traces: The actions of each node, in the node's order.
  package init(_ traces: [[Item]], _ pipes: [Pipe]) {
    items = traces.flatMap { $0 }
    predecessors = items.map { _ in [] }
    var first = 0
    // For each pipe, the action that sent each number, and the actions that processed events, in
    // the receiver's order.
    var senders: [String: [UInt64: Int]] = [:]
    var takingItems: [String: [Int]] = [:]
    for trace in traces {
      for (offset, item) in trace.enumerated() {
        let place = first + offset
        if offset > 0 { predecessors[place].insert(place - 1) }
        for sent in item.sent { senders[sent.pipe, default: [:]][sent.number] = place }
        if case .pipe(let name, _) = item.origin { takingItems[name, default: []].append(place) }
      }
      first += trace.count
    }
    for (place, item) in items.enumerated() {
      guard case .pipe(let name, let number) = item.origin,
        let pipe = pipes.first(where: { $0.name == name }), number > UInt64(pipe.initialCount)
      else { continue }
      addDependency(senders[name]?[number], before: place)
    }
    for pipe in pipes {
      var sent = pipe.initialCount
      for (place, item) in items.enumerated() where item.node == pipe.sender {
        let taken = sent - pipe.capacity + 1
        let takingItems = takingItems[pipe.name] ?? []
        if taken > 0 {
          addDependency(taken <= takingItems.count ? takingItems[taken - 1] : nil, before: place)
        }
        sent += item.sent.count { $0.pipe == pipe.name }
      }
    }
    propagateUnordered()
  }

  private mutating func addDependency(_ earlier: Int?, before place: Int) {
    if let earlier { predecessors[place].insert(earlier) } else { unorderedItems.insert(place) }
  }

  /// Adds all actions that follow an action in `unorderedItems`.
  private mutating func propagateUnordered() {
    while true {
      let more = items.indices.filter {
        !unorderedItems.contains($0) && !predecessors[$0].isDisjoint(with: unorderedItems)
      }
      if more.isEmpty { return }
      unorderedItems.formUnion(more)
    }
  }

  /// The number of actions whose predecessors are all known.
  package var count: Int { items.count - unorderedItems.count }

  /// Returns a random total order that agrees with the causal order.
  package func order(using generator: inout SplitMix64) throws(Cycle) -> [Item] {
    var rest = predecessors
    var successors: [[Int]] = items.map { _ in [] }
    for place in items.indices where !unorderedItems.contains(place) {
      for earlier in predecessors[place] { successors[earlier].append(place) }
    }
    var ready = items.indices.filter { !unorderedItems.contains($0) && rest[$0].isEmpty }
    var order: [Int] = []
    while !ready.isEmpty {
      let next = ready.remove(at: Int.random(in: 0..<ready.count, using: &generator))
      order.append(next)
      for later in successors[next].sorted() {
        rest[later].remove(next)
        if rest[later].isEmpty { ready.append(later) }
      }
    }
    guard order.count == count else {
      throw Cycle(
        items: Set(items.indices).subtracting(unorderedItems).subtracting(order).sorted().map {
          items[$0]
        })
    }
    return order.map { items[$0] }
  }
}

extension RunTrace.Item: CustomStringConvertible {
  package var description: String {
    let from =
      switch origin {
      case .outside: "outside"
      case .pipe(let pipe, let number): "event \(number) of '\(pipe)'"
      case .effect: "an effect"
      }
    let action = "\(node) \(state == nil ? "refuses" : "takes") \(event.caseText) (\(from))"
    let stateText = state.map { ", is \($0.caseText)" } ?? ""
    let sendTexts = sent.map { "\($0.event?.caseText ?? "?") into '\($0.pipe)'" }
    return action + stateText
      + (sendTexts.isEmpty ? "" : ", sends " + sendTexts.joined(separator: ", "))
  }
}
