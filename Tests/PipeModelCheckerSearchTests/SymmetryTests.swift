import PipeModelChecker
import Testing

@Suite("Symmetries of a model")
struct SymmetryTests {
  /// A net of interchangeable copies of an automaton, with a shared component and a shared queue.
  ///
  /// The local states of the copies are numbered differently. State 0 is the initial state of each.
  private struct Net {
    let copyCount: Int
    let stateCount: Int
    private let numberings: [[Int]]
    private let rules: [Rule]
    private static let sharedCount = 3

    /// Steps of one copy, or of two different copies, for each choice of copies.
    private struct Rule {
      var own: [Int?]
      var other: [Int?]?
      var shared: [Int?]?
      /// Whether the copy appends its symbol to the queue, or takes its symbol from the queue.
      var appends: Bool?
    }

    init(_ seed: UInt64, copies: Int, states: Int = 3) {
      var random = SeededNumbers(seed)
      (copyCount, stateCount) = (copies, states)
      numberings = (0..<copies).map { _ in [0] + Array(1..<states).shuffled(using: &random) }
      func table(_ count: Int) -> [Int?] {
        (0..<count).map { _ in
          Int.random(in: 0..<3, using: &random) == 0
            ? Int.random(in: 0..<count, using: &random) : nil
        }
      }
      rules = (0..<Int.random(in: 3...6, using: &random)).map { _ in
        Rule(
          own: table(states),
          other: Int.random(in: 0..<4, using: &random) == 0 ? table(states) : nil,
          shared: Int.random(in: 0..<3, using: &random) == 0 ? table(Self.sharedCount) : nil,
          appends: [true, false, nil, nil][Int.random(in: 0..<4, using: &random)])
      }
    }

    /// Copies whose states follow each other, without other components.
    init(chain states: Int, copies: Int) {
      (copyCount, stateCount) = (copies, states)
      numberings = (0..<copies).map { _ in Array(0..<states) }
      rules = [Rule(own: (0..<states).map { $0 + 1 < states ? $0 + 1 : nil })]
    }

    func model(symmetric: Bool, pairs: [(own: Int, other: Int)] = []) throws -> ExplorationModel {
      var model = ExplorationModel()
      for _ in 0..<copyCount { _ = model.addComponent(stateCount: stateCount) }
      let shared = model.addComponent(stateCount: Self.sharedCount)
      let queue = model.addQueue(capacity: 2)
      for rule in rules {
        for own in 0..<copyCount {
          for other in rule.other == nil ? [own] : (0..<copyCount).filter({ $0 != own }) {
            var roles = [role(of: own, rule.own)]
            if let table = rule.other { roles.append(role(of: other, table)) }
            if let table = rule.shared {
              roles.append(.table(shared, table.map { $0.map { .leads(to: $0) } ?? .blocked }))
            }
            if let appends = rule.appends {
              roles.append(.queue(queue, appends ? .append(own) : .removeHead(own)))
            }
            _ = try model.addVector(roles)
          }
        }
      }
      for pair in pairs {
        for own in 0..<copyCount {
          for other in 0..<copyCount where other != own {
            _ = try model.addObservation([
              own: [numberings[own][pair.own]], other: [numberings[other][pair.other]],
            ])
          }
        }
      }
      guard symmetric else { return model }
      for images in Self.permutations(Array(0..<copyCount)).dropFirst() {
        let symmetry = model.addSymmetry(
          Dictionary(uniqueKeysWithValues: images.enumerated().map { ($0, $1) }))
        for (copy, image) in images.enumerated() {
          model.setImage(ofSymbol: copy, in: queue, to: image, by: symmetry)
          for state in 0..<stateCount {
            model.setImage(
              ofState: numberings[copy][state], in: copy, to: numberings[image][state],
              by: symmetry)
          }
        }
      }
      return model
    }

    /// Returns whether an observation of a pair holds in a state.
    func isHeld(_ observation: Int, _ pairs: [(own: Int, other: Int)], in state: [Int]) -> Bool {
      let choices = (0..<copyCount).flatMap { own in
        (0..<copyCount).filter { $0 != own }.map { (own, $0) }
      }
      let pair = pairs[observation / choices.count]
      let (own, other) = choices[observation % choices.count]
      return state[own] == numberings[own][pair.own]
        && state[other] == numberings[other][pair.other]
    }

    private func role(of copy: Int, _ table: [Int?]) -> ExplorationModel.Role {
      let numbers = numberings[copy]
      var cells = table.map { _ in ExplorationModel.Cell.blocked }
      for (state, target) in table.enumerated() {
        if let target { cells[numbers[state]] = .leads(to: numbers[target]) }
      }
      return .table(copy, cells)
    }

    /// Returns the states of all copies with the contents of the queue, in an order that does not
    /// depend on the copies' names.
    func group(of state: [Int], contents: [Int]) -> [Int] {
      let states = (0..<copyCount).map { numberings[$0].firstIndex(of: state[$0]) ?? 0 }
      return Self.permutations(Array(0..<copyCount)).map { images in
        var renamed = states
        for (copy, image) in images.enumerated() { renamed[image] = states[copy] }
        return renamed + [state[copyCount]] + contents.map { images[$0] }
      }.min { $0.lexicographicallyPrecedes($1) } ?? []
    }

    private static func permutations(_ values: [Int]) -> [[Int]] {
      guard let first = values.first else { return [[]] }
      return permutations(Array(values.dropFirst())).flatMap { rest in
        (0...rest.count).map { Array(rest[..<$0]) + [first] + Array(rest[$0...]) }
      }.sorted { $0.lexicographicallyPrecedes($1) }
    }
  }

  /// All reachable states of a net, found without the search.
  private static func reachable(_ net: Net) throws -> [(state: [Int], contents: [Int], depth: Int)]
  {
    var exploration = try net.model(symmetric: false)
    var known: Set<[Int]> = [exploration.initialState]
    var found = [(state: exploration.initialState, depth: 0)]
    var next = 0
    let queue = net.copyCount + 1
    while next < found.count {
      let (state, depth) = found[next]
      next += 1
      // Makes the cells of the queue known.
      for symbols in contents(after: exploration.contents(of: queue, in: state[queue]) ?? [], net) {
        _ = exploration.localState(of: queue, holding: symbols)
      }
      for (_, target) in exploration.steps(from: state) where known.insert(target).inserted {
        found.append((target, depth + 1))
      }
    }
    return found.map {
      ($0.state, exploration.contents(of: queue, in: $0.state[queue]) ?? [], $0.depth)
    }
  }

  private static func contents(after contents: [Int], _ net: Net) -> [[Int]] {
    (0..<net.copyCount).map { contents + [$0] } + [Array(contents.dropFirst())]
  }

  @Test(
    "A search of interchangeable components visits one state of each group of equivalent states",
    arguments: Search.modes)
  func groups(_ mode: Search.SearchMode) async throws {
    for (states, copies, count) in [(3, 2, 6), (5, 2, 15), (4, 3, 20)] {
      let net = Net(chain: states, copies: copies)
      var full = Exploration(try net.model(symmetric: false), options: mode.options)
      var all = 1
      for _ in 0..<copies { all *= states }
      #expect(await full.run().stateCount == all)
      var symmetric = Exploration(try net.model(symmetric: true), options: mode.options)
      let result = await symmetric.run()
      #expect(result.stateCount == count)
      #expect(result.isReduced)
      #expect(result.depth == copies * (states - 1))
    }
  }

  @Test(
    "A search with symmetries finds the deadlocks and the nearest violations of a full search",
    arguments: [
      Search.SearchMode(), Search.SearchMode(threads: 2, wordBits: 7),
      Search.SearchMode(hasFingerprints: true, threads: 2), Search.SearchMode(wordBits: 3),
      Search.SearchMode(usesReduction: true), Search.SearchMode(threads: 2, usesReduction: true),
    ])
  func findings(_ mode: Search.SearchMode) async throws {
    for seed in 0..<60 as Range<UInt64> {
      let net = Net(seed, copies: seed % 2 == 0 ? 2 : 3)
      let pairs = [(own: 1, other: 2), (own: 2, other: 2), (own: 1, other: 0)]
      let reachable = try Self.reachable(net)
      let model = try net.model(symmetric: true, pairs: pairs)
      let plain = try net.model(symmetric: false, pairs: pairs)
      var questions = ExplorationQuestions()
      let closed = net.copyCount * (net.copyCount - 1)
      questions.neverObservations = Set(0..<pairs.count * closed)
      var search = Exploration(model, questions, options: mode.options)
      let result = await search.run()
      let queue = net.copyCount + 1
      func group(_ state: [Int]) -> [Int] {
        net.group(of: state, contents: search.model.contents(of: queue, in: state[queue]) ?? [])
      }
      let groups = Set(reachable.map { net.group(of: $0.state, contents: $0.contents) })
      if !mode.usesReduction { #expect(result.stateCount == groups.count, "seed \(seed)") }
      var full = Exploration(plain, questions, options: mode.options)
      let whole = await full.run()
      let deadlocks = Set(
        whole.deadlocks.firstStates.compactMap { full.path(to: $0).states.last }.map { state in
          net.group(of: state, contents: full.model.contents(of: queue, in: state[queue]) ?? [])
        })
      let found = result.deadlocks.firstStates.compactMap { search.path(to: $0).states.last }.map(
        group)
      #expect(Set(found) == deadlocks, "seed \(seed)")
      #expect(found.count == deadlocks.count, "seed \(seed)")
      for pair in pairs.indices {
        let observations = pair * closed..<(pair + 1) * closed
        let depths = { (result: ExplorationResult) in
          observations.compactMap { result.violations[$0]?.depth }.min()
        }
        #expect(depths(result) == depths(whole), "seed \(seed)")
      }
      for (observation, state) in result.violations {
        let path = search.path(to: state)
        #expect(path.states.count == state.depth + 1, "seed \(seed)")
        try checkSteps(of: path, in: search.model)
        let last = try #require(path.states.last)
        #expect(net.isHeld(observation, pairs, in: last), "seed \(seed)")
        if let stored = search.state(state) { #expect(last == stored, "seed \(seed)") }
      }
    }
  }

  /// Checks that each step of a path is a step of the model.
  private func checkSteps(of path: ExplorationPath, in model: ExplorationModel) throws {
    #expect(path.states.first == model.initialState)
    for (number, vector) in path.vectors.enumerated() {
      let isStep = model.steps(from: path.states[number]).contains {
        $0.vector == vector && $0.target == path.states[number + 1]
      }
      #expect(isStep)
    }
  }
}
