import PipeModelChecker
import Testing

@Suite("Random models")
struct RandomNetTests {
  static let seeds: [UInt64] = Array(0..<500)

  @Test(
    "Every kind of search finds the same states and steps as a naive search", arguments: seeds)
  func agreement(_ seed: UInt64) async throws {
    let net = Automata.random(seed)
    let answer = net.searchNaively()
    var questions = ExplorationQuestions()
    questions.findsCoverage = true
    for mode in Search.modes {
      let search = try await Search(net, mode, questions)
      let result = search.result
      try #require(result.verdict == .complete)
      #expect(result.stateCount == answer.states.count)
      #expect(result.stepCount == answer.stepCount)
      #expect(result.deadlocks.count == answer.deadlocks.count)
      for deadlock in result.deadlocks.firstStates {
        let states = search.path(to: deadlock).states
        #expect(states.count == deadlock.depth + 1)
        #expect(answer.deadlocks[states[states.count - 1]] == deadlock.depth)
        #expect(isPath(states, of: net))
      }
      let unreachable = try #require(result.unreachableStates)
      for number in net.components.indices {
        let met = Set(answer.states.map { $0[number] })
        #expect(met.isDisjoint(with: unreachable[number]))
        #expect(met.count + unreachable[number].count == net.components[number].stateCount)
      }
    }
  }

  @Test(
    "A reduced search finds the same deadlocks at the same depth as a full search", arguments: seeds
  )
  func reduction(_ seed: UInt64) async throws {
    let net = Automata.random(seed)
    let answer = net.searchNaively()
    for mode in Search.reducedModes {
      let search = try await Search(net, mode)
      var found: [[Int]: Int] = [:]
      for deadlock in search.result.deadlocks.firstStates {
        let states = search.path(to: deadlock).states
        found[states[states.count - 1]] = deadlock.depth
      }
      #expect(found == answer.deadlocks)
      #expect(search.result.stateCount <= answer.states.count)
    }
  }

  @Test(
    "A forbidden combination is found at the same depth, with and without reduction",
    arguments: seeds)
  func violations(_ seed: UInt64) async throws {
    let net = Automata.random(seed)
    var random = SeededNumbers(seed)
    let observation = Dictionary(
      uniqueKeysWithValues: net.components.enumerated().prefix(2).map { number, component in
        (number, [Int.random(in: 0..<component.stateCount, using: &random)] as Set<Int>)
      })
    func holds(_ state: [Int]) -> Bool {
      observation.allSatisfy { $0.value.contains(state[$0.key]) }
    }
    let nearest = net.distance { holds($0) }
    var questions = ExplorationQuestions()
    questions.neverObservations = [0]
    for mode in Search.modes + Search.reducedModes {
      let search = try await Search(net, mode, questions, observations: [observation])
      let violation = search.result.violations[0]
      #expect(violation?.depth == nearest)
      guard let violation else { continue }
      let states = search.path(to: violation).states
      #expect(holds(states[states.count - 1]))
      #expect(isPath(states, of: net))
    }
  }

  @Test("The nearest state from which a combination is unreachable is found", arguments: seeds)
  func possibilities(_ seed: UInt64) async throws {
    let net = Automata.random(seed)
    let goal = net.components[0].stateCount - 1
    var answer: [[Int]: Bool] = [:]
    for state in net.searchNaively().states {
      var later = net
      for number in net.components.indices {
        later.components[number] = Automaton(net.components[number], startingIn: state[number])
      }
      answer[state] = later.distance { $0[0] == goal } != nil
    }
    let nearest = net.distance { answer[$0] == false }
    var questions = ExplorationQuestions()
    questions.alwaysPossibleObservations = [0]
    for mode in Search.modes where !mode.hasFingerprints {
      let search = try await Search(net, mode, questions, observations: [[0: [goal]]])
      let possibility = try #require(search.result.possibilities[0])
      switch possibility {
      case .always: #expect(nearest == nil)
      case .lost(let state):
        #expect(state.depth == nearest)
        let states = search.path(to: state).states
        #expect(answer[states[states.count - 1]] == false)
      case .undecided, .lostWithinBounds: Issue.record("not decided")
      }
    }
  }

  private func isPath(_ states: [[Int]], of net: Automata) -> Bool {
    zip(states, states.dropFirst()).allSatisfy { state, next in
      net.steps(from: state).contains { $0.target == next }
    }
  }
}
