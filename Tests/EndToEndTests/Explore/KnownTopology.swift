import Testing

/// A topology whose numbers of states and steps are known from other sources.
struct KnownTopology: CustomTestStringConvertible, Sendable {
  let testDescription: String
  let yaml: String
  let states: Int
  let steps: Int
  var deadlocks = 0

  /// An automaton: its name, its initial state, and its steps.
  private typealias Node = (String, String, [String])

  /// Creates the topology file from its parts.
  private init(
    _ description: String, _ nodes: [Node], composites: [String], outside: [(String, [String])],
    states: Int, steps: Int, deadlocks: Int = 0
  ) {
    testDescription = description
    self.states = states
    self.steps = steps
    self.deadlocks = deadlocks
    var lines = ["topology: known", "program: TestNodes", "nodes:"]
    lines += nodes.map { name, start, steps in
      let list = steps.map { "\"\($0)\"" }.joined(separator: ", ")
      return "  \(name): { machine: Automaton, "
        + "parameters: { start: \"\(start)\", steps: [\(list)] } }"
    }
    lines += ["composites:"] + composites.map { "  " + $0 }
    lines += ["explore:", "  from_outside:"]
    lines += outside.map { "    \($0): [\($1.joined(separator: ", "))]" }
    yaml = lines.joined(separator: "\n") + "\n"
  }

  /// One topology of each kind.
  static let few = [interlock, vendingMachine, leftFirst(3, states: 35, steps: 66)]

  static let all = [
    interlock, leftAndRight, bystander, vendingMachine,
    leftFirst(3, states: 35, steps: 66), leftFirst(5, states: 392, steps: 1_250),
    leftFirst(7, states: 4_286, steps: 19_159), leftFirst(8, states: 14_158, steps: 72_336),
    threeParties(5, states: 11, steps: 30), threeParties(10, states: 123, steps: 680),
    scheduler(6, states: 576, steps: 2_016), scheduler(8, states: 3_072, steps: 13_824),
  ]

  private static let interlock = KnownTopology(
    "interlock", [("p", "p0", ["p0 x p1"]), ("q", "q0", ["q0 y q1", "q1 x q2"])],
    composites: ["both: { components: [p, q], synchronize: { x: [p, q] } }"],
    outside: [("both", ["x"]), ("q", ["y"])], states: 3, steps: 2, deadlocks: 1)

  private static let leftAndRight = KnownTopology(
    "left and right",
    [("l", "l", ["l x l1", "l1 sync l"]), ("r", "r", ["r y r1", "r1 sync r"])],
    composites: ["both: { components: [l, r], synchronize: { sync: [l, r] } }"],
    outside: [("both", ["sync"]), ("l", ["x"]), ("r", ["y"])], states: 4, steps: 5)

  private static let bystander = KnownTopology(
    "bystander", [("a", "0", ["0 sync 1"]), ("b", "0", ["0 sync 1"]), ("c", "0", ["0 z 0"])],
    composites: ["all: { components: [a, b, c], synchronize: { sync: [a, b] } }"],
    outside: [("all", ["sync"]), ("c", ["z"])], states: 2, steps: 3)

  private static let vendingMachine: KnownTopology = {
    let shared = ["showAvailable", "insert", "showPurchasable", "choose", "drop"]
    return KnownTopology(
      "vending machine",
      [
        (
          "user", "idle",
          [
            "idle tau idle", "idle showAvailable gonnaBuy", "gonnaBuy insert paying",
            "paying showPurchasable.true gonnaBuy", "paying showPurchasable.false choosing",
            "choosing choose waiting", "waiting drop idle",
          ]
        ),
        (
          "machine", "idle",
          [
            "idle showAvailable idle", "idle insert coins",
            "coins showPurchasable.true waitingChoice", "coins showPurchasable.false waitingChoice",
            "waitingChoice insert coins", "waitingChoice choose dropping", "dropping drop idle",
          ]
        ),
      ],
      composites: [
        "sale: { components: [user, machine], synchronize: { "
          + shared.map { "\($0): [user, machine]" }.joined(separator: ", ") + " } }"
      ],
      outside: [("sale", shared), ("user", ["tau"])], states: 6, steps: 8)
  }()

  /// Returns philosophers. Philosopher i takes fork i, and then fork i + 1.
  private static func leftFirst(_ count: Int, states: Int, steps: Int) -> KnownTopology {
    let places = 0..<count
    return KnownTopology(
      "philosophers left first, \(count)",
      places.flatMap { (place: Int) -> [Node] in
        [
          (
            "p\(place)", "0",
            ["0 getLeft 1", "1 getRight 2", "2 eat 3", "3 putLeft 4", "4 putRight 0"]
          ),
          (
            "f\(place)", "free",
            ["free getLeft l", "l putLeft free", "free getRight r", "r putRight free"]
          ),
        ]
      },
      composites: places.map {
        let (own, left, right) = ("p\($0)", "f\($0)", "f\(($0 + 1) % count)")
        return "seat\($0): { components: [\(own), \(left), \(right)], synchronize: { "
          + "getLeft: [\(own), \(left)], putLeft: [\(own), \(left)], "
          + "getRight: [\(own), \(right)], putRight: [\(own), \(right)] } }"
      },
      outside: places.flatMap {
        [("seat\($0)", ["getLeft", "putLeft", "getRight", "putRight"]), ("p\($0)", ["eat"])]
      }, states: states, steps: steps, deadlocks: 1)
  }

  /// Returns philosophers. Philosopher i takes and releases both forks at once.
  private static func threeParties(_ count: Int, states: Int, steps: Int) -> KnownTopology {
    let places = 0..<count
    return KnownTopology(
      "philosophers of three parties, \(count)",
      places.flatMap { (place: Int) -> [Node] in
        [
          ("p\(place)", "thinking", ["thinking x eating", "eating y thinking"]),
          ("f\(place)", "free", ["free x held", "held y free"]),
        ]
      },
      composites: places.map {
        let all = "[p\($0), f\($0), f\(($0 + 1) % count)]"
        return "seat\($0): { components: \(all), synchronize: { x: \(all), y: \(all) } }"
      },
      outside: places.map { ("seat\($0)", ["x", "y"]) }, states: states, steps: steps)
  }

  /// Returns Milner's scheduler: cell i is started by cell i - 1, runs, and then starts the next
  /// cell and finishes, in either order. Cell 0 has been started.
  /// - Parameter count: An even number, so that neighboring cells have different start events.
  private static func scheduler(_ count: Int, states: Int, steps: Int) -> KnownTopology {
    let places = 0..<count
    func start(by cell: Int) -> String { cell.isMultiple(of: 2) ? "x" : "y" }
    return KnownTopology(
      "scheduler, \(count)",
      places.map { (cell: Int) -> Node in
        let (mine, next) = (start(by: cell + count - 1), start(by: cell))
        return (
          "c\(cell)", cell == 0 ? "1" : "0",
          ["0 \(mine) 1", "1 eat 2", "2 \(next) 3", "3 drop 0", "2 drop 4", "4 \(next) 0"]
        )
      },
      composites: places.map {
        let pair = "[c\($0), c\(($0 + 1) % count)]"
        return "start\($0): { components: \(pair), synchronize: { \(start(by: $0)): \(pair) } }"
      },
      outside: places.flatMap {
        [("start\($0)", [start(by: $0)]), ("c\($0)", ["eat", "drop"])]
      }, states: states, steps: steps)
  }
}
