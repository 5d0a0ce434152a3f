import PipeMachines
import PipeTopology
import PipeWire

/// Something that may happen, wherever it does: an event and those who take it together.
///
/// It has a vector for each way in which it may end. Two configurations of a node that send other events
/// are two ways, since a vector appends always the same.
final class ExploredAction {
  enum Origin: Hashable {
    case outside
    case pipe(Int)
    case effect(node: Int, name: String)
    /// A node that may send anything.
    case anything(node: Int)
  }

  /// What a refusal is.
  enum Refusal {
    /// The event stays where it is, and waits.
    case waits
    /// A dead letter.
    case letter
    /// The end of the node, by its pipe's `on_refused: fail`.
    case failure
    /// Nothing, but for the end of the effect that gave the event.
    case step
    /// The event waits, and one behind it in its pipe may be taken.
    case postponed
  }

  struct Mover {
    let node: Int
    let input: OracleInput
    let refusal: Refusal
    /// Why it refuses the event whatever its state is; nothing is asked then.
    var problem: String?
    /// Whether it takes the event. If not, it only has a part in it by its refusal.
    var takes = true
  }

  enum Ending: Hashable {
    case sends([ExploredSend])
    case refused
  }

  /// What a mover does in one of its configurations.
  enum Outcome {
    case leads(to: Int, sends: [ExploredSend])
    case refused(because: String, to: Int)
    /// There is no answer.
    case none
  }

  /// The node or the composite that takes it.
  let owner: String
  /// `null` where an effect ends without an event.
  let event: JSONValue
  let origin: Origin
  let movers: [Mover]
  /// The composites of which a mover is a node, and that pipes lead from. They move with their nodes, and
  /// come behind the movers where there is something of each.
  let composites: [Int]
  /// What it takes out of a pipe.
  let taken: ExploredSend?
  /// What it puts into a pipe by itself.
  let put: ExploredSend?
  /// For each mover, and each composite, what it does in the configurations that were asked for.
  var outcomes: [[Int: Outcome]]
  /// For each of them how it may end.
  var endings: [[Ending]]
  var vectors: [[Ending]: Int] = [:]
  /// Where it takes of a pipe that postpones, the vector that asks whether it is taken.
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
  /// The effect that ends without an event; `nil` where something is taken.
  var endingEffect: String? {
    guard event == .null, case .effect(_, let name) = origin else { return nil }
    return name
  }
  /// Whether it takes of a pipe that postpones.
  var isPostponing: Bool { movers.count == 1 && movers[0].refusal == .postponed }

  /// Every combination of endings.
  var combinations: [[Ending]] {
    Self.combinations(of: endings)
  }

  /// The same of the composites alone.
  var compositeCombinations: [[Ending]] {
    Self.combinations(of: Array(endings.dropFirst(movers.count)))
  }

  private static func combinations(of endings: [[Ending]]) -> [[Ending]] {
    endings.reduce([[]]) { rows, endings in rows.flatMap { row in endings.map { row + [$0] } } }
  }

  /// Where a mover is led in a configuration if the action ends so; `nil` where that is not known.
  func cell(of mover: Int, in configuration: Int, ending: Ending) -> ExplorationModel.Cell? {
    guard let outcome = outcomes[mover][configuration] else { return nil }
    guard self.ending(of: outcome, mover) == ending else { return .blocked }
    switch outcome {
    case .leads(let target, _), .refused(_, let target): return .leads(to: target)
    case .none: return .blocked
    }
  }

  /// How the action ends for a mover with this outcome; `nil` where it does not happen.
  func ending(of outcome: Outcome, _ mover: Int) -> Ending? {
    switch outcome {
    case .leads(_, let sends):
      return mover >= movers.count || movers[mover].takes ? .sends(sends) : nil
    case .refused:
      guard mover < movers.count else { return nil }
      switch movers[mover].refusal {
      case .letter, .step: return .refused
      case .waits, .failure, .postponed: return nil
      }
    case .none: return nil
    }
  }
}
