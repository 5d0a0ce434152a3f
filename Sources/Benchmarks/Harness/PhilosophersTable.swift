import PipeRuntime

/// Philosophers and forks around a table, each a process of a topology, and what was measured of
/// them.
struct PhilosophersTable {
  private(set) var rates = Samples()
  /// Meals of the philosopher who had the least in one measurement, of the mean.
  private(set) var leastShare = 1.0
  /// Meals of the philosopher who had the most in one measurement, of the mean.
  private(set) var greatestShare = 0.0
  /// Meals of the ones with the least and with the most in one measurement.
  private(set) var leastMeals = Int.max
  private(set) var mostMeals = 0
  private let topology: TopologyRun
  private let names: [String]

  /// - Parameter count: How many philosophers there are, and forks.
  init(_ count: Int, _ durability: Durability, in directory: TemporaryDirectory) throws {
    names = (1...count).map { "philosopher\($0)" }
    let name = "table-\(durability.rawValue)"
    topology = try TopologyRun(
      Self.text(named: name, count, durability), named: name, in: directory)
  }

  /// Lets them eat for a while.
  mutating func measure(for duration: Duration, isKept: Bool = true) throws {
    let (before, start) = try meals()
    try Blocking.attempt { try await Task.sleep(for: duration) }
    let (after, end) = try meals()
    let had = names.map { after[$0, default: 0] - before[$0, default: 0] }
    let sum = had.reduce(0, +)
    guard isKept else { return }
    rates.add(sum / (end - start))
    let mean = sum / Double(had.count)
    leastShare = min(leastShare, (had.min() ?? 0) / mean)
    greatestShare = max(greatestShare, (had.max() ?? 0) / mean)
    leastMeals = min(leastMeals, Int(had.min() ?? 0))
    mostMeals = max(mostMeals, Int(had.max() ?? 0))
  }

  /// Meals so far, and when that was. Unit: seconds.
  private func meals() throws -> ([String: Double], Double) {
    let client = topology.client
    let names = names
    return try Blocking.attempt {
      while true {
        let start = Clock.nanoseconds
        let directory = try await client.directory()
        let now = (Double(start) + Double(Clock.nanoseconds)) / 2e9
        var meals: [String: Double] = [:]
        for name in names {
          // A meal is two steps: forks are taken, and put back.
          if let version = directory[node: name]?.status?.version {
            meals[name] = Double(version) / 2
          }
        }
        if meals.count == names.count { return (meals, now) }
      }
    }
  }

  private static func text(named name: String, _ count: Int, _ durability: Durability) -> String {
    let philosopher = "machine: Philosopher, parameters: { thought: 0, meal: 0 }"
    let nodes = (1...count).flatMap {
      [
        "  philosopher\($0): { \(philosopher), durability: \(durability.rawValue) }",
        "  fork\($0): { machine: Fork, durability: \(durability.rawValue) }",
      ]
    }
    let seats = (1...count).map {
      "  seat\($0): { components: [philosopher\($0), fork\($0), fork\($0 % count + 1)], "
        + "synchronize: [take, release] }"
    }
    return """
      topology: \(name)
      program: \(Programs.nodes)
      nodes:
      \(nodes.joined(separator: "\n"))
      composites:
      \(seats.joined(separator: "\n"))
      """
  }
}
