import PipeMachines
import PipeTopology
import PipeWire

/// A possible action of the topology: an event, its origin, and the nodes that take part, which are
/// called movers. An action does not depend on the state.
///
/// In the model, an action is a set of vectors, which are steps of several components together. A
/// vector always appends the same events to pipes. So if a mover sends different events in two
/// configurations, the mover has two endings, and there is a vector for each combination of the
/// movers' endings.
final class ExploredAction {
  enum Origin: Hashable {
    case outside
    case pipe(Int)
    case effect(node: Int, name: String)
    /// The timer that is due first in the node's state.
    case timer(node: Int)
    /// A node listed under `any`, which may send any event.
    case unevaluated(node: Int)
  }

  /// The consequence if a mover refuses the event.
  enum Refusal {
    /// The event waits at its origin.
    case waits
    /// The event becomes a dead letter.
    case deadLetter
    /// The event is dropped, because its pipe has `on_refused: ignore`. An event that is refused
    /// because of an error becomes a dead letter nevertheless.
    case ignored
    /// The node fails, since its pipe has `on_refused: fail`.
    case failure
    /// The effect that emitted the event ends. There is no other consequence.
    case effectEnds
    /// The event waits in its pipe, and the node may accept a later event of the pipe.
    case postponed
  }

  /// The properties that identify an action.
  struct Identity: Hashable {
    var origin: Origin
    var event: JSONValue
    var moverIndices: [Int]
    var moverAcceptances: [Bool]
    /// The index of the pipe into which an action without movers sends the event.
    var putEvent: Int?
  }

  struct Mover {
    let node: Int
    let input: EvaluatorInput
    let refusal: Refusal
    /// The reason why the node refuses the event in every state. If set, the node's program is not
    /// asked.
    var problem: String?
    /// Whether the mover is an instance that takes part in a synchronized event. The event creates
    /// an instance that does not exist yet, even if the instance ignores the event.
    var isInstanceOfComposite = false
    /// Whether the mover accepts the event in this action. If `false`, the action is the refusal of
    /// the event.
    var acceptsEvent = true
  }

  enum Ending: Hashable {
    case sends([ExploredSend])
    /// The node ignores the event.
    case ignored
    case refused
  }

  /// The outcome of the action for a mover in one of its configurations.
  enum Outcome {
    /// The node takes a step to the configuration with the number `to`.
    /// - Parameter isInternal: Whether the transition is internal, so that the node enters no
    ///   state.
    case leads(to: Int, sends: [ExploredSend], isInternal: Bool = false)
    /// The node consumes the event without a step. If an effect emitted the event, the effect may
    /// have ended.
    case ignored(to: Int)
    case refused(reason: String, to: Int)
    /// The action does not happen. For example, the effect that emits the event is not running, or
    /// the program gave no answer.
    case none
  }

  /// The node or the composite that receives the event.
  let owner: String
  /// The event; `null` if an effect ends without an event, and `(after)` for a timer.
  let event: JSONValue
  let origin: Origin
  let movers: [Mover]
  /// The explored composites that contain a mover. In the search, composites move together with
  /// their nodes.
  ///
  /// The arrays `outcomes` and `endings` have an element for each mover, followed by an element for
  /// each composite.
  let composites: [Int]
  /// The event that the action removes from a pipe; `nil` if the event does not come from a pipe.
  let takenEvent: ExploredSend?
  /// The event that an action without movers sends into a pipe.
  let putEvent: ExploredSend?
  /// For each mover, then for each composite, the outcomes in the configurations evaluated so far.
  var outcomes: [[Int: Outcome]]
  /// For each mover, then for each composite, the possible endings found so far.
  var endings: [[Ending]]
  var vectorsByEndings: [[Ending]: Int] = [:]
  /// If the pipe postpones refused events: the number of a probe vector. A probe vector is never
  /// enabled; the search uses it only to find out whether the node accepts the event.
  var probeVector: Int?

  init(
    owner: String, event: JSONValue, origin: Origin, movers: [Mover], composites: [Int] = [],
    taken: ExploredSend? = nil, put: ExploredSend? = nil
  ) {
    self.owner = owner
    self.event = event
    self.origin = origin
    self.movers = movers
    self.composites = composites
    self.takenEvent = taken
    self.putEvent = put
    outcomes = Array(repeating: [:], count: movers.count + composites.count)
    endings =
      movers.map { [$0.acceptsEvent ? .sends([]) : .refused] }
      + composites.map { _ in [.sends([])] }
  }

  var identity: Identity {
    Identity(
      origin: origin, event: event, moverIndices: movers.map(\.node),
      moverAcceptances: movers.map(\.acceptsEvent),
      putEvent: putEvent?.pipeIndex)
  }

  var isFromOutside: Bool { origin == .outside }
  /// The name of the effect that ends without an event; `nil` if the action has an event.
  var endingEffect: String? {
    guard event == .null, case .effect(_, let name) = origin else { return nil }
    return name
  }
  /// Whether the event comes from a pipe that postpones refused events.
  var isPostponing: Bool { movers.count == 1 && movers[0].refusal == .postponed }

  /// The combinations of endings. Each combination has one possible ending of each mover and of
  /// each composite.
  var combinations: [[Ending]] {
    Self.combinations(of: endings)
  }

  /// The combinations of the composites' endings. Each combination has one possible ending of each
  /// composite.
  var compositeCombinations: [[Ending]] {
    Self.combinations(of: Array(endings.dropFirst(movers.count)))
  }

  private static func combinations(of endings: [[Ending]]) -> [[Ending]] {
    endings.reduce([[]]) { rows, endings in rows.flatMap { row in endings.map { row + [$0] } } }
  }

  /// Returns the table cell of a mover for a vector in which the mover has the given ending; `nil`
  /// if the outcome is not known yet.
  /// - Parameter mover: The index of a mover or, after the movers, of a composite.
  func cell(of mover: Int, in configuration: Int, ending: Ending) -> ExplorationModel.Cell? {
    guard let outcome = outcomes[mover][configuration] else { return nil }
    guard self.ending(of: outcome, mover) == ending else { return .blocked }
    switch outcome {
    case .leads(let target, _, _), .ignored(let target), .refused(_, let target):
      return .leads(to: target)
    case .none: return .blocked
    }
  }

  /// Returns the ending that belongs to a mover's outcome; `nil` if the action does not happen with
  /// this outcome.
  /// - Parameter mover: The index of a mover or, after the movers, of a composite.
  func ending(of outcome: Outcome, _ mover: Int) -> Ending? {
    switch outcome {
    case .leads(_, let sends, _):
      return mover >= movers.count || movers[mover].acceptsEvent ? .sends(sends) : nil
    case .ignored:
      guard mover < movers.count, movers[mover].acceptsEvent else { return nil }
      // If an event comes from outside the topology, and the only receiver ignores the event,
      // nothing changes. A step without a change would hide deadlocks.
      return isFromOutside && movers.count == 1 ? nil : .ignored
    case .refused:
      guard mover < movers.count else { return nil }
      switch movers[mover].refusal {
      case .deadLetter, .ignored, .effectEnds: return .refused
      case .waits, .failure, .postponed: return nil
      }
    case .none: return nil
    }
  }
}
