import PipeModelChecker
import Testing

@Suite("Reduced searches of models")
struct ReductionTests {
  /// The answers that a search must give with and without reduction.
  private struct Answer: Equatable {
    var deadlocks: [[Int]: Int] = [:]
    var stuck: [[Int]: Int] = [:]
    var violations: [Int: Int] = [:]
    var isLost: [Int: Bool] = [:]
    var neverEnabled: [Int]?
    var unreachable: [[Int]]?
  }

  private struct Found {
    let answer: Answer
    let result: ExplorationResult
  }

  /// Automata with some labels from outside, and observations of their states.
  private struct Net {
    let automata: Automata
    let outside: Set<String>
    let observations: [[Int: Set<Int>]]

    init(_ seed: UInt64) {
      automata = .random(seed)
      var random = SeededNumbers(seed &+ 77)
      outside = Set(
        (0..<9).map { "e\($0)" }.filter { _ in Int.random(in: 0..<3, using: &random) == 0 })
      let automata = automata
      observations = (0..<3).map { _ in
        Dictionary(
          uniqueKeysWithValues: automata.components.indices.shuffled(using: &random).prefix(2).map {
            let count = automata.components[$0].stateCount
            return ($0, [Int.random(in: 0..<count, using: &random)])
          })
      }
    }

    func model(isEmpty: Bool) throws -> ExplorationModel {
      var model = ExplorationModel()
      for component in automata.components {
        _ = model.addComponent(
          stateCount: isEmpty ? 1 : component.stateCount, initial: component.initial)
      }
      for (vector, choice) in automata.choices.enumerated() {
        _ = try model.addVector(
          choice.tables.sorted { $0.key < $1.key }.map { component, _ in
            .table(
              component,
              isEmpty
                ? []
                : (0..<automata.components[component].stateCount).map {
                  automata.cell(of: component, in: $0, for: vector)
                })
          }, isFromOutside: outside.contains(choice.label))
      }
      for observation in observations { _ = try model.addObservation(observation) }
      return model
    }
  }

  /// Searches, and fills the demanded cells.
  private func search(
    _ net: Net, _ mode: Search.SearchMode, _ questions: ExplorationQuestions, isGrown: Bool = false
  ) async throws -> Found {
    var exploration = Exploration(
      try net.model(isEmpty: isGrown), questions, options: mode.options)
    var finished: ExplorationResult?
    while finished == nil {
      switch await exploration.advance() {
      case .progress: continue
      case .finished(let result): finished = result
      case .demands(let demands):
        for demand in demands {
          try exploration.model.setCell(
            of: demand.component, in: demand.localState, for: demand.vector,
            to: net.automata.cell(
              of: demand.component, in: demand.localState, for: demand.vector))
        }
      }
    }
    let result = try #require(finished)
    #expect(result.verdict == .complete)
    var answer = Answer()
    for state in result.deadlocks.firstStates {
      answer.deadlocks[exploration.path(to: state).states.last ?? []] = state.depth
    }
    for state in result.stuckStates.firstStates {
      answer.stuck[exploration.path(to: state).states.last ?? []] = state.depth
    }
    #expect(result.deadlocks.count == answer.deadlocks.count)
    #expect(result.stuckStates.count == answer.stuck.count)
    answer.violations = result.violations.mapValues(\.depth)
    for (observation, possibility) in result.possibilities {
      switch possibility {
      case .always: answer.isLost[observation] = false
      case .lost: answer.isLost[observation] = true
      case .undecided, .lostWithinBounds: Issue.record("undecided")
      }
    }
    // A model that grew has only the local states that were reached.
    if !isGrown {
      answer.neverEnabled = result.neverEnabledVectors
      answer.unreachable = result.unreachableStates.map { rows in rows.map { $0.sorted() } }
    }
    return Found(answer: answer, result: result)
  }

  private static let kinds: [@Sendable (inout ExplorationQuestions) -> Void] = [
    { _ in },
    { $0.neverObservations = [0, 1, 2] },
    {
      $0.findsDeadlocks = false
      $0.neverObservations = [0]
    },
    {
      $0.findsDeadlocks = false
      $0.neverObservations = [1, 2]
    },
    { $0.findsStuckStates = true },
    {
      $0.findsStuckStates = true
      $0.endObservations = [0]
      $0.restObservations = [0, 1]
    },
    { $0.findsCoverage = true },
    { $0.alwaysPossibleObservations = [0, 1] },
    {
      $0.findsDeadlocks = false
      $0.alwaysPossibleObservations = [2]
    },
    {
      $0.findsStuckStates = true
      $0.findsCoverage = true
      $0.neverObservations = [0]
      $0.alwaysPossibleObservations = [1]
    },
  ]

  private static let modes = [
    Search.SearchMode(usesReduction: true), Search.SearchMode(threads: 2, usesReduction: true),
    Search.SearchMode(wordBits: 7, usesReduction: true, padding: 60),
    Search.SearchMode(threads: 3, wordBits: 3, usesReduction: true),
  ]

  @Test(
    "A reduced search finds every deadlock, stuck state and violation at a full search's depth",
    arguments: 0..<400 as Range)
  func agreement(_ seed: Int) async throws {
    let net = Net(UInt64(seed))
    for change in Self.kinds {
      var questions = ExplorationQuestions()
      change(&questions)
      let whole = try await search(net, Search.SearchMode(), questions)
      #expect(!whole.result.isReduced)
      for mode in Self.modes {
        for isGrown in [false, true] {
          var expected = whole.answer
          if isGrown {
            expected.neverEnabled = nil
            expected.unreachable = nil
          }
          let part = try await search(net, mode, questions, isGrown: isGrown)
          #expect(part.result.isReduced)
          #expect(part.answer == expected)
          #expect(part.result.stateCount <= whole.result.stateCount)
        }
      }
    }
  }

  @Test("A reduced search that covers every step requests the same local steps as a full search")
  func demands() async throws {
    for seed in 0..<200 as Range<UInt64> {
      let net = Net(seed)
      var questions = ExplorationQuestions()
      questions.findsDeadlocks = false
      questions.takesEveryStep = true
      var asked: [Set<[Int]>] = []
      for mode in [Search.SearchMode()] + Self.modes {
        var cells: Set<[Int]> = []
        var exploration = Exploration(
          try net.model(isEmpty: true), questions, options: mode.options)
        searching: while true {
          switch await exploration.advance() {
          case .progress: continue
          case .finished: break searching
          case .demands(let demands):
            for demand in demands {
              cells.insert([demand.component, demand.localState, demand.vector])
              try exploration.model.setCell(
                of: demand.component, in: demand.localState, for: demand.vector,
                to: net.automata.cell(
                  of: demand.component, in: demand.localState, for: demand.vector))
            }
          }
        }
        asked.append(cells)
      }
      #expect(asked.allSatisfy { $0 == asked[0] })
    }
  }

  @Test("A reduced search of ten philosophers visits under 5 % of the states, even with coverage")
  func philosophers() async throws {
    let automata = KnownModels.philosophersLeftFirst(10)
    for coverage in [false, true] {
      var questions = ExplorationQuestions()
      questions.findsCoverage = coverage
      let result = try await Search(automata, Search.SearchMode(usesReduction: true), questions)
        .result
      #expect(result.deadlocks.firstStates.map(\.depth) == [10])
      #expect(result.neverEnabledVectors == (coverage ? [] : nil))
      #expect(result.stateCount < 154_450 / 20)
    }
  }

  @Test("A reduced search ends as soon as the forbidden combination cannot be reached any more")
  func outOfReach() async throws {
    var questions = ExplorationQuestions()
    questions.findsDeadlocks = false
    questions.neverObservations = [0]
    let automata = Automata(components: [
      Automaton([.init(0, "a", 1), .init(1, "b", 0)]), Automaton([.init(0, "c", 1)]),
    ])
    let result = try await Search(
      automata, Search.SearchMode(usesReduction: true), questions, observations: [[1: [5]]]
    ).result
    #expect(result.verdict == .complete)
    #expect(result.violations.isEmpty)
    #expect(result.stateCount <= 2)
  }

  @Test("A reduced search visits all states if all states are requested")
  func visitsAllStates() async throws {
    var questions = ExplorationQuestions()
    questions.visitsAllStates = true
    let result = try await Search(
      KnownModels.philosophersLeftFirst(5), Search.SearchMode(usesReduction: true), questions
    ).result
    #expect(!result.isReduced)
    #expect(result.stateCount == 392)
  }

  @Test("A component whose role is 'unchanged' neither changes nor blocks a step")
  func unchanged() async throws {
    var model = ExplorationModel()
    let node = model.addComponent(stateCount: 2)
    let queue = model.addQueue(capacity: 1)
    _ = try model.addVector([.table(node, [.leads(to: 1), .blocked]), .unchanged(queue)])
    _ = try model.addVector([.unchanged(node), .queue(queue, .append(1))])
    var exploration = Exploration(model)
    let result = await exploration.run()
    #expect(result.stateCount == 4)
    #expect(result.stepCount == 4)
    #expect(model.promela().contains(":: d_step"))
  }
}
