import PipeMachines
import PipeTopology
import PipeWire

/// A pipe as a search sees it: the events that were sent into it, each with a number.
final class ExploredPipe {
  let specification: PipeSpecification
  /// Its place in the file.
  let place: Int
  let component: Int
  let capacity: Int
  private(set) var events: [JSONValue] = []
  private var numbers: [JSONValue: Int] = [:]
  /// Where events that are refused wait, and one behind them may be taken: see ``PostponingLane``.
  var lane = PostponingLane()

  init(_ specification: PipeSpecification, place: Int, component: Int, capacity: Int) {
    self.specification = specification
    self.place = place
    self.component = component
    self.capacity = capacity
  }

  var name: String { specification.name }

  /// The number of an event, and whether it is new.
  func number(of event: JSONValue) -> (number: Int, isNew: Bool) {
    if let known = numbers[event] { return (known, false) }
    numbers[event] = events.count
    events.append(event)
    return (events.count - 1, true)
  }
}

/// What a node takes of a pipe that postpones, in each of its configurations: the first event that it
/// takes there, and none of those that it refuses.
struct PostponingLane {
  struct Key: Hashable {
    let event: Int
    let sends: [ExploredSend]
    /// All events that are taken in the same configurations.
    let accepted: Set<Int>
    /// How it ends for the composites that move with the node.
    let composites: [ExploredAction.Ending]
  }

  /// For each configuration the events that are taken, as far as they were tried, with what follows.
  var accepted: [Int: [Int: (target: Int, sends: [ExploredSend])]] = [:]
  var vectors: [Key: Int] = [:]
  /// What may become of each event, by its number.
  var receptions: [Int: ExploredAction] = [:]
}

/// An event that a step puts into a pipe, both by their numbers.
struct ExploredSend: Hashable {
  let pipe: Int
  let event: Int
}
