import PipeRuntime

/// A topology of philosophers and forks around a table, with its measurements.
struct PhilosophersTable {
  private(set) var rates = Samples()
  /// The smallest and the largest number of meals of one philosopher in one measurement, relative
  /// to the mean.
  private(set) var shares = (least: 1.0, most: 1.0)
  /// The smallest and the largest number of meals of one philosopher in one measurement.
  private(set) var meals = (least: Int.max, most: 0)
  /// The costs per meal in the last measurement, as text.
  private(set) var costs = ""
  private let topology: TopologyRun
  private let philosophers: [String]
  private let forks: [String]

  /// The counters of the processes at one instant.
  private struct Counters {
    /// The instant. Unit: seconds.
    var time = 0.0
    var meals: [Double] = []
    var messages = 0.0
    var records = 0.0
    /// The processor times of all philosophers, all forks, and the coordinator. Unit: seconds.
    var processorTimes: [Double] = []
  }

  private static let coordinator = "seat1"

  /// - Parameter count: The number of philosophers, which is also the number of forks.
  init(_ count: Int, _ durability: Durability, in directory: TemporaryDirectory) throws {
    philosophers = (1...count).map { "philosopher\($0)" }
    forks = (1...count).map { "fork\($0)" }
    let name = "table-\(durability.rawValue)"
    topology = try TopologyRun(
      Self.text(named: name, count, durability), named: name, in: directory)
  }

  /// Measures the costs per meal over a period of time.
  mutating func measure(for duration: Duration, isCounted: Bool = true) throws {
    let before = try readCounters()
    try Blocking.run { try await Task.sleep(for: duration) }
    let after = try readCounters()
    guard isCounted else { return }
    let mealCounts = zip(after.meals, before.meals).map(-)
    let sum = mealCounts.reduce(0, +)
    let (least, most) = (mealCounts.min() ?? 0, mealCounts.max() ?? 0)
    let mean = sum / Double(mealCounts.count)
    rates.add(sum / (after.time - before.time))
    shares = (min(shares.least, least / mean), max(shares.most, most / mean))
    meals = (min(meals.least, Int(least)), max(meals.most, Int(most)))
    let times = zip(after.processorTimes, before.processorTimes).map {
      "\(Quantity.seconds(($0 - $1) / sum))"
    }
    costs = """
      \(((after.messages - before.messages) / sum).fixed(1)) messages, \
      \(((after.records - before.records) / sum).fixed(1)) records; processor time: \
      philosopher \(times[0]), forks \(times[1]), coordinator \(times[2])
      """
  }

  /// Polls until a single answer contains the status of all nodes, and returns the counters.
  private func readCounters() throws -> Counters {
    let client = topology.client
    let names = philosophers + forks + [Self.coordinator]
    let (statuses, time) = try Blocking.run {
      while true {
        let start = Clock.nanoseconds
        let directory = try await client.directory()
        let end = Clock.nanoseconds
        let statuses = names.compactMap { directory[node: $0]?.status }
        if statuses.count == names.count {
          return (statuses, (Double(start) + Double(end)) / 2e9)
        }
      }
    }
    // A meal is two steps: taking the forks, and putting them back.
    return Counters(
      time: time, meals: statuses.prefix(philosophers.count).map { Double($0.version) / 2 },
      messages: statuses.last?.synchronization.map { Double($0.sent + $0.received) } ?? 0,
      records: statuses.reduce(0) { $0 + Double($1.records ?? 0) },
      processorTimes: [philosophers, forks, [Self.coordinator]].map { names in
        names.reduce(0) { $0 + topology.use(of: $1).total.time }
      })
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
