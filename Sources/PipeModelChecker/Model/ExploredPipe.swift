import PipeMachines
import PipeTopology
import PipeWire

/// A pipe in a search. Each event that is sent into the pipe has a number.
final class ExploredPipe {
  let specification: PipeSpecification
  /// The pipe's index in the file.
  let index: Int
  let component: Int
  let capacity: Int
  /// Whether the receiver is a node with a `key` whose instances take part in synchronized events.
  /// The events for a locked instance wait, so that events for other instances overtake them.
  let hasLockableReceiver: Bool
  private(set) var events: [JSONValue] = []
  /// The sender of each event in `events`; `nil` unless the sender is an instance that takes part
  /// in synchronized events.
  private(set) var senders: [Sender?] = []
  private var numbersByEvent: [SentEvent: Int] = [:]
  /// The accepted events of a pipe that postpones refused events: see ``PostponingLane``.
  var lane = PostponingLane()

  /// An instance that takes part in synchronized events, as the sender of an event.
  struct Sender: Hashable {
    let key: JSONValue
    /// Whether the instance sends the event in its step for a synchronized event. Each participant
    /// takes this step at its own time after the commit. So an event that another instance sends
    /// later may arrive earlier.
    let isCommit: Bool
  }

  private struct SentEvent: Hashable {
    let event: JSONValue
    let sender: Sender?
  }

  init(
    _ specification: PipeSpecification, index: Int, component: Int, capacity: Int,
    hasLockableReceiver: Bool
  ) {
    self.specification = specification
    self.index = index
    self.component = component
    self.capacity = capacity
    self.hasLockableReceiver = hasLockableReceiver
  }

  var name: String { specification.name }

  /// Returns the number of an event, and whether the event is new.
  /// - Parameter sender: The sender, if it is an instance that takes part in synchronized events.
  func number(of event: JSONValue, by sender: Sender? = nil) -> (number: Int, isNew: Bool) {
    let sent = SentEvent(event: event, sender: sender)
    if let known = numbersByEvent[sent] { return (known, false) }
    numbersByEvent[sent] = events.count
    events.append(event)
    senders.append(sender)
    return (events.count - 1, true)
  }
}

/// For a pipe that postpones refused events: the events that its receiving node accepts in each
/// configuration.
///
/// From such a pipe, the node processes the first queued event that it does not refuse.
struct PostponingLane {
  struct Key: Hashable {
    let eventNumber: Int
    let sends: [ExploredSend]
    /// The vector is permitted in the configurations in which the node accepts exactly these
    /// events.
    let acceptedEventNumbers: Set<Int>
    /// The endings for the composites that move with the node.
    let composites: [ExploredAction.Ending]
  }

  /// For each configuration, the accepted events found so far: by event number, the target
  /// configuration and the sent events.
  var acceptedStepsByConfiguration: [Int: [Int: (target: Int, sends: [ExploredSend])]] = [:]
  var vectorNumbersByKey: [Key: Int] = [:]
  /// The actions in which the node receives an event, by event number.
  var receptionsByEventNumber: [Int: ExploredAction] = [:]
}

/// An event that a step sends into a pipe: the pipe's number and the event's number.
struct ExploredSend: Hashable {
  let pipeIndex: Int
  let eventNumber: Int
}

// Pipes that postpone refused events, so that later events can overtake the postponed events.
extension TopologyModel {
  func laneCell(
    _ action: ExploredAction, _ configuration: Int, _ lane: PostponingLane.Key?
  ) -> ExplorationModel.Cell {
    guard let taken = action.takenEvent else { return .blocked }
    let known = pipes[taken.pipeIndex].lane.acceptedStepsByConfiguration[configuration]
    guard let lane else {
      // This is a probe, a vector that is never enabled. Its outcome is unknown until the step
      // evaluator has answered.
      return action.outcomes[0][configuration] == nil ? .unknown : .blocked
    }
    guard let known else { return .unknown }
    guard Set(known.keys) == lane.acceptedEventNumbers, let step = known[taken.eventNumber],
      step.sends == lane.sends
    else { return .blocked }
    return .leads(to: step.target)
  }

  /// Rebuilds the vectors of a pipe that postpones events, after the step evaluator has answered
  /// for one more event in a configuration of the node.
  func fillLane(
    _ action: ExploredAction, _ outcome: ExploredAction.Outcome, in configuration: Int,
    _ model: inout ExplorationModel
  ) throws {
    guard let taken = action.takenEvent else { return }
    let pipe = pipes[taken.pipeIndex]
    let component = nodes[action.movers[0].node].component
    if let probeVector = action.probeVector {
      try model.setCell(of: component, in: configuration, for: probeVector, to: .blocked)
    }
    let before = pipe.lane.acceptedStepsByConfiguration[configuration] ?? [:]
    pipe.lane.acceptedStepsByConfiguration[configuration] = before
    switch outcome {
    case .leads(let target, let sends, _):
      pipe.lane.acceptedStepsByConfiguration[configuration]?[taken.eventNumber] = (target, sends)
    case .ignored(let target):
      pipe.lane.acceptedStepsByConfiguration[configuration]?[taken.eventNumber] = (target, [])
    case .refused, .none: return
    }
    for (key, number) in pipe.lane.vectorNumbersByKey
    where key.acceptedEventNumbers == Set(before.keys) {
      // The set of accepted events now contains the new event. Vectors for the former set no longer
      // apply.
      try model.setCell(of: component, in: configuration, for: number, to: .blocked)
    }
    let now = pipe.lane.acceptedStepsByConfiguration[configuration] ?? [:]
    for (event, step) in now {
      guard let own = pipe.lane.receptionsByEventNumber[event] else { continue }
      for combination in own.compositeCombinations {
        let key = PostponingLane.Key(
          eventNumber: event, sends: step.sends, acceptedEventNumbers: Set(now.keys),
          composites: combination)
        if let number = pipe.lane.vectorNumbersByKey[key] {
          try model.setCell(
            of: component, in: configuration, for: number, to: .leads(to: step.target))
        } else {
          pipe.lane.vectorNumbersByKey[key] = try addVector(
            own, [.sends(step.sends)] + combination, lane: key, to: &model)
        }
      }
    }
  }

  /// Rebuilds the vectors of a pipe that postpones events, when the outcome for a composite that
  /// contains the node becomes known.
  func fillLane(
    _ action: ExploredAction, ofComposite moverIndex: Int, _ outcome: ExploredAction.Outcome,
    in combination: Int, _ model: inout ExplorationModel
  ) throws {
    guard let taken = action.takenEvent else { return }
    let pipe = pipes[taken.pipeIndex]
    if let ending = action.ending(of: outcome, moverIndex),
      !action.endings[moverIndex].contains(ending)
    {
      action.endings[moverIndex].append(ending)
      for (key, _) in pipe.lane.vectorNumbersByKey where key.eventNumber == taken.eventNumber {
        for combination in action.compositeCombinations {
          let other = PostponingLane.Key(
            eventNumber: key.eventNumber, sends: key.sends,
            acceptedEventNumbers: key.acceptedEventNumbers,
            composites: combination)
          guard pipe.lane.vectorNumbersByKey[other] == nil else { continue }
          pipe.lane.vectorNumbersByKey[other] = try addVector(
            action, [.sends(key.sends)] + combination, lane: other, to: &model)
        }
      }
    }
    let component = composites[action.composites[moverIndex - action.movers.count]].component
    for (key, number) in pipe.lane.vectorNumbersByKey where key.eventNumber == taken.eventNumber {
      let ending = key.composites[moverIndex - action.movers.count]
      guard let cell = action.cell(of: moverIndex, in: combination, ending: ending) else {
        continue
      }
      try model.setCell(of: component, in: combination, for: number, to: cell)
    }
  }
}
