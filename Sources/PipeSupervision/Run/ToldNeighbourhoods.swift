import PipeWire

/// What each process of a deployed topology was told last of its neighbours; as a value.
///
/// A connection that breaks takes with it what was under way. A node says with each status which list it has, and
/// is told the last one again where that is another one.
package struct ToldNeighbourhoods {
  /// A list to send to a node.
  package struct Notice: Hashable {
    package let node: String
    package let number: UInt64
    package let neighbourhood: Neighbourhood
  }

  private var last: [String: Notice] = [:]
  private var number: UInt64

  /// - Parameter generation: How many orchestrators have been there before, in whose place this one is: no list of
  ///   its is taken for one of theirs.
  package init(after generation: UInt64 = 0) { number = generation << 20 }

  /// - Returns: What to send; `nil` where the node was told that last.
  package mutating func tell(_ neighbourhood: Neighbourhood, to node: String) -> Notice? {
    guard last[node]?.neighbourhood != neighbourhood else { return nil }
    number += 1
    let notice = Notice(node: node, number: number, neighbourhood: neighbourhood)
    last[node] = notice
    return notice
  }

  /// A node has said which list it has.
  /// - Parameter number: The lower 32 bits of the list's; 0 for none.
  /// - Returns: What to send once more; `nil` where it has the last one, or was told none.
  package func again(_ node: String, has number: UInt32) -> Notice? {
    guard let notice = last[node], UInt32(truncatingIfNeeded: notice.number) != number else {
      return nil
    }
    return notice
  }

  /// The process is gone, or may have lost what it was told.
  package mutating func forget(_ node: String) { last[node] = nil }
}
