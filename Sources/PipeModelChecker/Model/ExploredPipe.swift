import PipeMachines
import PipeTopology
import PipeWire

/// A pipe as a search sees it: the events sent into it, each with a number.
final class ExploredPipe {
  let specification: PipeSpecification
  /// The pipe's index in the file.
  let place: Int
  let component: Int
  let capacity: Int
  private(set) var events: [JSONValue] = []
  private var numbers: [JSONValue: Int] = [:]
  /// The accepted events of a pipe that postpones refused events: see ``PostponingLane``.
  var lane = PostponingLane()

  init(_ specification: PipeSpecification, place: Int, component: Int, capacity: Int) {
    self.specification = specification
    self.place = place
    self.component = component
    self.capacity = capacity
  }

  var name: String { specification.name }

  /// Returns the number of an event, and whether it is new.
  func number(of event: JSONValue) -> (number: Int, isNew: Bool) {
    if let known = numbers[event] { return (known, false) }
    numbers[event] = events.count
    events.append(event)
    return (events.count - 1, true)
  }
}

/// The events that a node accepts, in each of its configurations, from a pipe that postpones
/// refused events.
///
/// The node accepts the first queued event that it does not refuse.
struct PostponingLane {
  struct Key: Hashable {
    let event: Int
    let sends: [ExploredSend]
    /// All events that are accepted in the same configurations.
    let accepted: Set<Int>
    /// The endings for the composites that move with the node.
    let composites: [ExploredAction.Ending]
  }

  /// For each configuration, the accepted events found so far, with their targets and sends.
  var accepted: [Int: [Int: (target: Int, sends: [ExploredSend])]] = [:]
  var vectors: [Key: Int] = [:]
  /// The reception action of each event, by the event's number.
  var receptions: [Int: ExploredAction] = [:]
}

/// An event that a step puts into a pipe. Pipe and event are given by number.
struct ExploredSend: Hashable {
  let pipe: Int
  let event: Int
}

// Pipes in which refused events wait and let others pass.
extension TopologyModel {
  func laneCell(
    _ action: ExploredAction, _ configuration: Int, _ lane: PostponingLane.Key?
  ) -> ExplorationModel.Cell {
    guard let taken = action.taken else { return .blocked }
    let known = pipes[taken.pipe].lane.accepted[configuration]
    guard let lane else {
      // A probe is unknown until it is answered, and is never enabled.
      return action.outcomes[0][configuration] == nil ? .unknown : .blocked
    }
    guard let known else { return .unknown }
    guard Set(known.keys) == lane.accepted, let step = known[taken.event],
      step.sends == lane.sends
    else { return .blocked }
    return .leads(to: step.target)
  }

  /// Rebuilds the vectors of a configuration after one more event turned out to be accepted in it.
  func fillLane(
    _ action: ExploredAction, _ outcome: ExploredAction.Outcome, in configuration: Int,
    _ model: inout ExplorationModel
  ) throws {
    guard let taken = action.taken else { return }
    let pipe = pipes[taken.pipe]
    let component = nodes[action.movers[0].node].component
    if let probe = action.probe {
      try model.setCell(of: component, in: configuration, for: probe, to: .blocked)
    }
    let before = pipe.lane.accepted[configuration] ?? [:]
    pipe.lane.accepted[configuration] = before
    guard case .leads(let target, let sends) = outcome else { return }
    pipe.lane.accepted[configuration]?[taken.event] = (target, sends)
    for (key, number) in pipe.lane.vectors where key.accepted == Set(before.keys) {
      // A vector with one more accepted event replaces this vector.
      try model.setCell(of: component, in: configuration, for: number, to: .blocked)
    }
    let now = pipe.lane.accepted[configuration] ?? [:]
    for (event, step) in now {
      guard let own = pipe.lane.receptions[event] else { continue }
      for combination in own.compositeCombinations {
        let key = PostponingLane.Key(
          event: event, sends: step.sends, accepted: Set(now.keys), composites: combination)
        if let number = pipe.lane.vectors[key] {
          try model.setCell(
            of: component, in: configuration, for: number, to: .leads(to: step.target))
        } else {
          pipe.lane.vectors[key] = try addVector(
            own, [.sends(step.sends)] + combination, lane: key, to: &model)
        }
      }
    }
  }

  /// Does the same for a composite that moves with the node.
  func fillLane(
    _ action: ExploredAction, ofComposite place: Int, _ outcome: ExploredAction.Outcome,
    in combination: Int, _ model: inout ExplorationModel
  ) throws {
    guard let taken = action.taken else { return }
    let pipe = pipes[taken.pipe]
    if let ending = action.ending(of: outcome, place), !action.endings[place].contains(ending) {
      action.endings[place].append(ending)
      for (key, _) in pipe.lane.vectors where key.event == taken.event {
        for combination in action.compositeCombinations {
          let other = PostponingLane.Key(
            event: key.event, sends: key.sends, accepted: key.accepted, composites: combination)
          guard pipe.lane.vectors[other] == nil else { continue }
          pipe.lane.vectors[other] = try addVector(
            action, [.sends(key.sends)] + combination, lane: other, to: &model)
        }
      }
    }
    let component = composites[action.composites[place - action.movers.count]].component
    for (key, number) in pipe.lane.vectors where key.event == taken.event {
      let ending = key.composites[place - action.movers.count]
      guard let cell = action.cell(of: place, in: combination, ending: ending) else { continue }
      try model.setCell(of: component, in: combination, for: number, to: cell)
    }
  }
}
