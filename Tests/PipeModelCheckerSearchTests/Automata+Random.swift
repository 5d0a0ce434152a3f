extension Automata {
  /// Returns automata that share some of their labels, sometimes with several steps for one label.
  static func random(_ seed: UInt64) -> Automata {
    var random = SeededNumbers(seed)
    let labels = (0..<Int.random(in: 3...9, using: &random)).map { "e\($0)" }
    let components = (0..<Int.random(in: 2...5, using: &random)).map { _ in
      let states = Int.random(in: 1...5, using: &random)
      let own = labels.filter { _ in Int.random(in: 0..<3, using: &random) > 0 }
      let steps = (0..<Int.random(in: 1...9, using: &random)).compactMap { _ in
        own.randomElement(using: &random).map {
          Automaton.Step(
            Int.random(in: 0..<states, using: &random), $0,
            Int.random(in: 0..<states, using: &random))
        }
      }
      return Automaton(
        Array(Set(steps)).sorted { ($0.from, $0.label, $0.to) < ($1.from, $1.label, $1.to) })
    }
    return Automata(components: components)
  }
}
