import PipeModelChecker
import PipeRuntime
import TestTraits
import Testing

@Suite(
  "The capacity of explored pipes",
  .stallLimit(.seconds(120)))
struct CapacityTests {
  private static func rambler(_ name: String, _ steps: String, sends: String = "") -> String {
    "  \(name): { machine: Rambler, parameters: { steps: [\(steps)], sends: [\(sends)] } }\n"
  }

  private static func outside(_ events: [String: [String]]) -> ExploreSection {
    var section = ExplorationFixture.outside(events)
    for name in ["a", "b"] {
      section.effectEvents[name] = ["hurry": EffectPattern([]), "dawdle": EffectPattern([])]
    }
    return section
  }

  /// A receiver three events behind its sender, which is impossible with a pipe of capacity two.
  private static let burst =
    "nodes:\n"
    + rambler(
      "a", "home x north, north x east, east x south", sends: "north z, east z, south z")
    + rambler("b", "home z north, north z east, east z south")

  private static func lag(capacity: Int?) -> ExploreSection {
    var section = outside(["a": ["x"]])
    section.capacity = capacity
    section.properties = [
      ExploredProperty(
        name: "lag", demand: .never, states: StateCombination(["a": "south", "b": "home"]))
    ]
    return section
  }

  @Test("A search increases a pipe's capacity if an error needs more events in the pipe")
  func burst() async throws {
    let report = try await ExplorationFixture.topology(
      Self.burst + "pipes:\n  - { from: a.out, to: b.in }\n", Self.lag(capacity: nil))
    #expect(report.codes.contains(.violatedProperty))
    #expect(report.verdict.degree == .exact)
  }

  @Test(
    "A search keeps the file's capacity, and the verdict says if the capacity can hide errors"
  )
  func fixed() async throws {
    let pipe = "pipes:\n  - { from: a.out, to: b.in }\n"
    let low = try await ExplorationFixture.topology(Self.burst + pipe, Self.lag(capacity: 2))
    #expect(!low.codes.contains(.violatedProperty))
    #expect(low.verdict.degree == .sampled)
    #expect(
      low.verdict.remarks == [
        .lowerCapacity(pipe: "a.out->b.in", explored: 2, declared: 1_024)
      ])
    let high = try await ExplorationFixture.topology(Self.burst + pipe, Self.lag(capacity: 4))
    #expect(high.codes.contains(.violatedProperty))
    #expect(high.verdict.degree == .exact)
    // A pipe's own capacity is not an assumption, so the verdict is exact.
    let own = try await ExplorationFixture.topology(
      Self.burst + "pipes:\n  - { from: a.out, to: b.in, capacity: 2 }\n", Self.lag(capacity: nil))
    #expect(!own.codes.contains(.violatedProperty))
    #expect(own.verdict.degree == .exact)
  }

  /// Two nodes that each send two events before they accept one.
  private static let cross =
    "nodes:\n"
    + ["a", "b"].map {
      rambler(
        $0, "home x north, north x east, east z south, south z home", sends: "north z, east z")
    }.joined() + """
      pipes:
        - { from: a.out, to: b.in, on_refused: postpone }
        - { from: b.out, to: a.in, on_refused: postpone }

      """

  private static func done(capacity: Int?) -> ExploreSection {
    var section = outside(["a": ["x"], "b": ["x"]])
    section.capacity = capacity
    section.properties = [
      ExploredProperty(
        name: "done", demand: .alwaysPossible,
        states: StateCombination(["a": "south", "b": "south"]))
    ]
    return section
  }

  @Test("An error that occurs only with less than the declared capacity is not a finding")
  func cross() async throws {
    let report = try await ExplorationFixture.topology(Self.cross, Self.done(capacity: nil))
    #expect(report.codes.isDisjoint(with: [.violatedProperty, .fullPipes, .deadlock]))
    #expect(report.verdict.degree == .exact)
    let low = try await ExplorationFixture.topology(Self.cross, Self.done(capacity: 2))
    #expect(low.codes.isDisjoint(with: [.violatedProperty, .fullPipes, .deadlock]))
    #expect(
      low.verdict.remarks.contains(.undecided(property: "done", because: .capacity)))
    #expect(low.verdict.degree == .incomplete)
  }

  @Test("A pipe that is filled endlessly is explored up to its declared capacity")
  func endless() async throws {
    let report = try await ExplorationFixture.topology(
      "nodes:\n" + Self.rambler("a", "home x north, north x home", sends: "north z")
        + Self.rambler("b", "home y north")
        + "pipes:\n  - { from: a.out, to: b.in, on_refused: postpone, capacity: 300 }\n",
      Self.outside(["a": ["x"]]))
    #expect(report.verdict.degree == .exact)
    #expect(report.totals.stateCount == 600)
    #expect(
      report.findings(.deadlock).first?.scenario?.expectedPipeContents.values.first?.count == 300)
  }

  @Test("If a pipe has too many possible contents, the verdict is not exact")
  func tooMany() async throws {
    let report = try await ExplorationFixture.topology(
      "nodes:\n"
        + Self.rambler(
          "a", "home x north, home y east, north x home, east x home", sends: "north z, east y")
        + Self.rambler("b", "home x north")
        + "pipes:\n  - { from: a.out, to: b.in, on_refused: postpone }\n",
      Self.outside(["a": ["x", "y"]]))
    #expect(report.verdict.degree == .sampled)
    #expect(!report.codes.contains(.deadlock))
  }

  /// Returns a random topology of machines whose pipes hold up to a few events.
  private static func random(_ seed: UInt64) -> (
    nodes: String, section: ExploreSection, capacity: Int
  ) {
    var random = SplitMix64(seed: seed)
    let names = ["a", "b", "c"].prefix(Int.random(in: 2...3, using: &random))
    let capacity = Int.random(in: 3...7, using: &random)
    let places = ["home", "north", "east", "south"]
    var text = "nodes:\n"
    var section = ExploreSection(fromOutside: [:])
    for name in names {
      var steps: [String] = []
      var sends: [String] = []
      for place in places {
        for event in ["x", "y", "z"] where Int.random(in: 0..<100, using: &random) < 45 {
          steps.append("\(place) \(event) \(places.randomElement(using: &random)!)")
        }
        if place != "home", Bool.random(using: &random) {
          sends.append("\(place) \(["y", "z"].randomElement(using: &random)!)")
        }
      }
      text += rambler(
        name, steps.joined(separator: ", "), sends: sends.joined(separator: ", "))
      section.fromOutside?[name] = Bool.random(using: &random) ? [EventPattern("x")] : []
      section.effectEvents[name] = ["hurry": EffectPattern([]), "dawdle": EffectPattern([])]
    }
    text += "pipes:\n"
    for (place, name) in names.enumerated() {
      let other = names[(place + 1) % names.count]
      let refused = Bool.random(using: &random) ? "record" : "postpone"
      text +=
        "  - { from: \(name).out, to: \(other).in, capacity: \(capacity), on_refused: \(refused) }\n"
    }
    for (number, demand) in ExploredProperty.Demand.allCases.enumerated() {
      let states = names.prefix(2).map {
        ($0, StateCondition(.string(places.randomElement(using: &random)!)))
      }
      section.properties.append(
        ExploredProperty(
          name: "p\(number)", demand: demand,
          states: StateCombination(Dictionary(uniqueKeysWithValues: states))))
    }
    return (text, section, capacity)
  }

  @Test(
    "In a random topology, every finding of a search also exists with full pipe capacities",
    arguments: 0..<24)
  func random(_ number: Int) async throws {
    let seed = UInt64.random(in: 0...UInt64.max)
    let (nodes, section, capacity) = Self.random(seed)
    let report = try await ExplorationFixture.topology(nodes, section)
    var whole = section
    whole.capacity = capacity
    let known = try await ExplorationFixture.topology(nodes, whole) { $0.memoryLimit = 512 << 20 }
    let context = "seed \(seed): \(report.verdict.remarks)\n\(nodes)"
    guard known.verdict.degree == .exact else { return }
    let certain = Set(known.findings.filter { !$0.code.isWarning }.map(\.code))
    let claimed = Set(report.findings.filter { !$0.code.isWarning }.map(\.code))
    #expect(claimed.isSubset(of: certain), "\(context)")
    guard report.verdict.degree == .exact else { return }
    #expect(report.totals.stateCount == known.totals.stateCount, "\(context)")
    #expect(report.totals.stepCount == known.totals.stepCount, "\(context)")
    #expect(claimed == certain, "\(context)")
    #expect(
      Set(report.findings(.violatedProperty).map(\.kind))
        == Set(known.findings(.violatedProperty).map(\.kind)), "\(context)")
  }
}
