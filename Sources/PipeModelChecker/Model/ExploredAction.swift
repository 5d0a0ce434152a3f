import PipeMachines
import PipeTopology
import PipeWire

/// A possible action: an event with the nodes that take part in it, independent of the state.
///
/// An action has a vector for each combination of endings. A node that sends different events in
/// two configurations has two endings, because a vector always appends the same events.
final class ExploredAction {
  enum Origin: Hashable {
    case outside
    case pipe(Int)
    case effect(node: Int, name: String)
    /// A node under `any`, which may send any event.
    case anything(node: Int)
  }

  /// The consequence of a refusal.
  enum Refusal {
    /// The event stays where it is, and waits.
    case waits
    /// The event becomes a dead letter.
    case deadLetter
    /// The event is dropped, because of its pipe's `on_refused: ignore`.
    case ignored
    /// The node fails, because of its pipe's `on_refused: fail`.
    case failure
    /// The effect that emitted the event ends; there is no other consequence.
    case step
    /// The event waits, and a later event in its pipe may be accepted.
    case postponed
  }

  struct Mover {
    let node: Int
    let input: EvaluatorInput
    let refusal: Refusal
    /// The reason why the node refuses the event in every state; its program is not asked then.
    var problem: String?
    /// Whether the node accepts the event. Otherwise the node takes part only by refusing it.
    var takes = true
  }

  enum Ending: Hashable {
    case sends([ExploredSend])
    case refused
  }

  /// The outcome for a mover in one of its configurations.
  enum Outcome {
    case leads(to: Int, sends: [ExploredSend])
    case refused(reason: String, to: Int)
    /// The program gave no answer.
    case none
  }

  /// The node or the composite that receives the event.
  let owner: String
  /// The event; `null` if an effect ends without an event.
  let event: JSONValue
  let origin: Origin
  let movers: [Mover]
  /// The explored composites that contain a mover. They move together with their nodes.
  ///
  /// In arrays with an element for each participant, the composites follow the movers.
  let composites: [Int]
  /// The event that the action takes from a pipe.
  let taken: ExploredSend?
  /// The event that the action itself puts into a pipe.
  let put: ExploredSend?
  /// For each mover, then for each composite, the outcomes in the configurations evaluated so far.
  var outcomes: [[Int: Outcome]]
  /// For each mover, then for each composite, the possible endings found so far.
  var endings: [[Ending]]
  var vectors: [[Ending]: Int] = [:]
  /// The vector that probes whether the event is accepted, if its pipe postpones refused events.
  var probe: Int?

  init(
    owner: String, event: JSONValue, origin: Origin, movers: [Mover], composites: [Int] = [],
    taken: ExploredSend? = nil, put: ExploredSend? = nil
  ) {
    self.owner = owner
    self.event = event
    self.origin = origin
    self.movers = movers
    self.composites = composites
    self.taken = taken
    self.put = put
    outcomes = Array(repeating: [:], count: movers.count + composites.count)
    endings =
      movers.map { [$0.takes ? .sends([]) : .refused] } + composites.map { _ in [.sends([])] }
  }

  var isFromOutside: Bool { origin == .outside }
  /// The effect that ends without an event; `nil` if the action has an event.
  var endingEffect: String? {
    guard event == .null, case .effect(_, let name) = origin else { return nil }
    return name
  }
  /// Whether the event comes from a pipe that postpones refused events.
  var isPostponing: Bool { movers.count == 1 && movers[0].refusal == .postponed }

  /// All combinations of endings.
  var combinations: [[Ending]] {
    Self.combinations(of: endings)
  }

  /// All combinations of endings of the composites.
  var compositeCombinations: [[Ending]] {
    Self.combinations(of: Array(endings.dropFirst(movers.count)))
  }

  private static func combinations(of endings: [[Ending]]) -> [[Ending]] {
    endings.reduce([[]]) { rows, endings in rows.flatMap { row in endings.map { row + [$0] } } }
  }

  /// Returns the target of a mover in a configuration if the action has the given ending; `nil` if
  /// it is unknown.
  func cell(of mover: Int, in configuration: Int, ending: Ending) -> ExplorationModel.Cell? {
    guard let outcome = outcomes[mover][configuration] else { return nil }
    guard self.ending(of: outcome, mover) == ending else { return .blocked }
    switch outcome {
    case .leads(let target, _), .refused(_, let target): return .leads(to: target)
    case .none: return .blocked
    }
  }

  /// Returns the ending of the action for a mover with this outcome; `nil` if the action does not happen.
  func ending(of outcome: Outcome, _ mover: Int) -> Ending? {
    switch outcome {
    case .leads(_, let sends):
      return mover >= movers.count || movers[mover].takes ? .sends(sends) : nil
    case .refused:
      guard mover < movers.count else { return nil }
      switch movers[mover].refusal {
      case .deadLetter, .ignored, .step: return .refused
      case .waits, .failure, .postponed: return nil
      }
    case .none: return nil
    }
  }
}
