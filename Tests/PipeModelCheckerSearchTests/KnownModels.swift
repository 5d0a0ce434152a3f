/// The models with known answers.
enum KnownModels {
  static let interlock = Automata(components: [
    Automaton([.init(0, "x", 1)]),
    Automaton([.init(0, "y", 1), .init(1, "x", 2)]),
  ])

  static let leftAndRight = Automata(components: [
    Automaton([.init(0, "blue", 1), .init(1, "sync", 0)]),
    Automaton([.init(0, "red", 1), .init(1, "sync", 0)]),
  ])

  static let bystander = Automata(components: [
    Automaton([.init(0, "e", 1)]), Automaton([.init(0, "e", 1)]), Automaton([.init(0, "z", 0)]),
  ])

  static let vendingMachine = Automata(components: [
    Automaton([
      .init(0, "tau", 0), .init(0, "showAvailable", 1), .init(1, "insert", 2),
      .init(2, "showPurchasable", 1), .init(2, "showPurchasable", 3), .init(3, "choose", 4),
      .init(4, "drop", 0),
    ]),
    Automaton([
      .init(0, "showAvailable", 0), .init(0, "insert", 1), .init(1, "showPurchasable", 2),
      .init(2, "insert", 1), .init(2, "choose", 3), .init(3, "drop", 0),
    ]),
  ])

  /// Returns philosophers. Philosopher i takes fork i, and then fork i + 1.
  static func philosophersLeftFirst(_ count: Int) -> Automata {
    let philosophers = (0..<count).map { i in
      let next = (i + 1) % count
      return Automaton([
        .init(0, "get \(i) \(i)", 1), .init(1, "get \(i) \(next)", 2), .init(2, "eat \(i)", 3),
        .init(3, "put \(i) \(i)", 4), .init(4, "put \(i) \(next)", 0),
      ])
    }
    let forks = (0..<count).map { j in
      let before = (j + count - 1) % count
      return Automaton([
        .init(0, "get \(j) \(j)", 1), .init(1, "put \(j) \(j)", 0),
        .init(0, "get \(before) \(j)", 2), .init(2, "put \(before) \(j)", 0),
      ])
    }
    return Automata(components: zip(philosophers, forks).flatMap { [$0, $1] })
  }

  /// Returns philosophers. Philosopher i takes and releases both forks at once.
  static func philosophersOfThreeParties(_ count: Int) -> Automata {
    let philosophers = (0..<count).map { i in
      Automaton([.init(0, "take \(i)", 1), .init(1, "release \(i)", 0)])
    }
    let forks = (0..<count).map { j in
      let before = (j + count - 1) % count
      return Automaton(
        [before, j].flatMap { i in
          [Automaton.Step(0, "take \(i)", 1), Automaton.Step(1, "release \(i)", 0)]
        })
    }
    return Automata(components: philosophers + forks)
  }

  /// Returns Milner's scheduler: cell i is started by cell i - 1, runs, and then starts the next
  /// cell and finishes, in either order. Cell 0 has been started.
  static func scheduler(_ count: Int) -> Automata {
    Automata(
      components: (0..<count).map { i in
        let mine = "start \(i)"
        let next = "start \((i + 1) % count)"
        let cell = [
          Automaton.Step(0, mine, 1), .init(1, "run \(i)", 2), .init(2, next, 3),
          .init(3, "finish \(i)", 0), .init(2, "finish \(i)", 4), .init(4, next, 0),
        ]
        return Automaton(cell, initial: i == 0 ? 1 : 0)
      })
  }
}
