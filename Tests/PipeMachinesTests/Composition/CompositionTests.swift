import PipeMachines
import Testing

@Suite("Declarations of composites")
struct CompositionTests {
  private typealias Problem = CompositionError.Problem

  private static let alphabets: KeyValuePairs = [
    "A": ["e", "f"], "B": ["e", "g"], "C": ["e", "z"], "D": ["f", "z"],
  ]

  private func compose(_ composites: CompositeDeclaration...) throws -> Composition {
    try Composition(composites, of: Self.alphabets)
  }

  private func problems(_ composites: CompositeDeclaration...) -> [Problem] {
    do {
      _ = try Composition(composites, of: Self.alphabets)
      return []
    } catch {
      return error.problems
    }
  }

  @Test("If participants are omitted, every component with the event is a participant")
  func omitted() throws {
    let composition = try compose(
      CompositeDeclaration("all", components: ["D", "C", "B", "A"], synchronize: ["e", "f", "z"]))
    #expect(
      composition.vectors.map(\.description) == ["all.e(A, B, C)", "all.f(A, D)", "all.z(C, D)"])
  }

  @Test("If participants are listed, other components take the event separately")
  func explicit() throws {
    let composition = try compose(
      CompositeDeclaration(
        "pair", components: ["A", "B", "C"],
        synchronize: [Synchronization("e", participants: ["B", "A"])]))
    #expect(composition.vectors.map(\.description) == ["pair.e(A, B)"])
    #expect(composition.vectors(of: "C", event: "e").isEmpty)
    #expect(composition.vectors(of: "A", event: "e").count == 1)
  }

  @Test("Components of nested composites take the outer composite's event together")
  func nested() throws {
    let composition = try compose(
      CompositeDeclaration("outer", components: ["inner", "C"], synchronize: ["e"]),
      CompositeDeclaration("inner", components: ["A", "B"], synchronize: ["e"]))
    #expect(composition.vectors.map(\.description) == ["outer.e(A, B, C)"])
    #expect(composition.machines(of: "outer") == ["A", "B", "C"])
    #expect(try composition.vector("e", of: "outer") == composition.vectors[0])
    #expect(throws: RoutingError.requiresComposite("e", composite: "outer")) {
      try composition.vector("e", of: "inner")
    }
  }

  @Test("An event of an inner composite can be sent through the outer composite")
  func grouping() throws {
    let composition = try compose(
      CompositeDeclaration("left", components: ["A", "B"], synchronize: ["e"]),
      CompositeDeclaration("right", components: ["C", "D"], synchronize: ["z"]),
      CompositeDeclaration("both", components: ["left", "right"], synchronize: ["f"]))
    #expect(try composition.vector("z", of: "both").composite == "right")
    #expect(
      composition.vectors.map(\.description) == ["left.e(A, B)", "right.z(C, D)", "both.f(A, D)"])
    #expect(throws: RoutingError.notSynchronized("g", composite: "both")) {
      try composition.vector("g", of: "both")
    }
    #expect(throws: RoutingError.unknownComposite("table")) {
      try composition.vector("e", of: "table")
    }
  }

  @Test("Overlapping composites are addressed by their names, even for the same event")
  func overlapping() throws {
    let composition = try compose(
      CompositeDeclaration("ab", components: ["A", "B"], synchronize: ["e"]),
      CompositeDeclaration("bc", components: ["B", "C"], synchronize: ["e"]),
      CompositeDeclaration("group", components: ["ab", "bc"], synchronize: []))
    #expect(composition.vectors(of: "B", event: "e").map(\.composite) == ["ab", "bc"])
    #expect(throws: RoutingError.ambiguous("e", composites: ["ab", "bc"])) {
      try composition.vector("e", of: "group")
    }
    #expect(composition.machines(of: "group") == ["A", "B", "C"])
  }

  @Test("If a participant could take an event in several ways, the error lists all these ways")
  func alternatives() {
    let inner = CompositeDeclaration("inner", components: ["A", "B"], synchronize: [])
    #expect(
      problems(
        inner, CompositeDeclaration("outer", components: ["inner", "C"], synchronize: ["e"]))
        == [.alternatives([["A"], ["B"]], participant: "inner", event: "e", composite: "outer")])
    #expect(
      problems(
        CompositeDeclaration("ab", components: ["A", "B"], synchronize: ["e"]),
        CompositeDeclaration("bc", components: ["B", "C"], synchronize: ["e"]),
        CompositeDeclaration("group", components: ["ab", "bc"], synchronize: []),
        CompositeDeclaration("outer", components: ["group", "A"], synchronize: ["e"]))
        == [
          .alternatives(
            [["A", "B"], ["B", "C"]], participant: "group", event: "e", composite: "outer")
        ])
    #expect(
      problems(
        CompositeDeclaration(
          "twice", components: ["A", "B", "C"],
          synchronize: [
            Synchronization("e", participants: ["A", "B"]),
            Synchronization("e", participants: ["B", "C"]),
          ])
      ).first == .repeatedEvent("e", composite: "twice"))
  }

  @Test("All errors of a declaration are reported together, with valid alternatives")
  func errors() {
    let found = problems(
      CompositeDeclaration("A", components: ["B", "B"], synchronize: []),
      CompositeDeclaration("lost", components: ["E"], synchronize: []),
      CompositeDeclaration(
        "odd", components: ["A", "B"], synchronize: [Synchronization("e", participants: ["C"])]),
      CompositeDeclaration("empty", components: [], synchronize: []))
    #expect(
      found == [
        .duplicateName("A"), .repeatedComponent("B", composite: "A"),
        .unknownComponent(
          "E", composite: "lost", known: ["A", "A", "B", "C", "D", "empty", "odd"]),
        .unknownParticipant("C", event: "e", composite: "odd", components: ["A", "B"]),
        .noComponents(composite: "empty"),
      ])
    #expect(
      problems(CompositeDeclaration("p", components: ["A", "C"], synchronize: ["g", "z"])) == [
        .tooFewParticipants([], event: "g", composite: "p"),
        .tooFewParticipants(["C"], event: "z", composite: "p"),
      ])
    #expect(
      problems(
        CompositeDeclaration(
          "p", components: ["A", "B"],
          synchronize: [Synchronization("g", participants: ["A", "B"])]))
        == [.notInAlphabet("A", event: "g", composite: "p", alphabet: ["e", "f"])])
  }

  @Test("Composites that contain each other cause an error that shows the cycle")
  func cycles() {
    #expect(
      problems(
        CompositeDeclaration("p", components: ["A", "q"], synchronize: []),
        CompositeDeclaration("q", components: ["r"], synchronize: []),
        CompositeDeclaration("r", components: ["p"], synchronize: []))
        == [.cycle(["p", "q", "r", "p"])])
  }

  @Test("Composites that share a participant, even transitively, are in one conflict class")
  func conflictClasses() throws {
    #expect(
      try compose(
        CompositeDeclaration("ab", components: ["A", "B"], synchronize: ["e"]),
        CompositeDeclaration("cd", components: ["C", "D"], synchronize: ["z"])
      ).conflictClasses == [["ab"], ["cd"]])
    #expect(
      try compose(
        CompositeDeclaration("ab", components: ["A", "B"], synchronize: ["e"]),
        CompositeDeclaration("cd", components: ["C", "D"], synchronize: ["z"]),
        CompositeDeclaration("bc", components: ["B", "C"], synchronize: ["e"])
      ).conflictClasses == [["cd", "ab", "bc"]])
    // A composite that offers an inner composite's event uses the inner one's coordinator.
    #expect(
      try compose(
        CompositeDeclaration("cd", components: ["C", "D"], synchronize: ["z"]),
        CompositeDeclaration("all", components: ["A", "B", "cd"], synchronize: ["e"])
      ).conflictClasses == [["cd", "all"]])
    let five = try Composition(
      ThreeParty.seats(5),
      machines: (0..<5).flatMap { seat in
        [("philosopher\(seat)", ["take", "release"]), ("fork\(seat)", ["take", "release"])]
      })
    #expect(five.conflictClasses.count == 1)
  }

  @Test("The message of an error names the composite, the event and possible meanings")
  func wording() {
    let problem = Problem.alternatives(
      [["A"], ["B"]], participant: "inner", event: "e", composite: "outer")
    #expect(
      problem.description == """
        composite 'outer', event 'e': participant 'inner' could accept it in 2 ways: A or B; \
        synchronize the event in 'inner', or list other participants
        """)
  }
}
