import Glibc
import PipeRuntime

/// A topology of lamps that synchronize an event, with its measurements.
struct Lamps {
  private(set) var times = Samples()
  /// The processor use per event of each process.
  private(set) var uses: [(name: String, uses: ProcessorUses)]
  /// The mean costs per event.
  private(set) var costs = Costs()
  let participantCount: Int
  private let topology: TopologyRun
  private let count: Int

  /// The messages and journal transactions per event, as counted by the processes.
  struct Costs {
    /// The number of messages that the coordinator sends or receives.
    var coordinatorMessages = 0.0
    /// The number of messages that the participants send or receive.
    var participantMessages = 0.0
    /// The number of transactions in all journals.
    var records = 0.0
  }

  private static let composite = "lamps"
  private static let clientName = "caller"

  /// - Parameters:
  ///   - isEmbedded: Whether the coordinator is embedded in the first lamp.
  ///   - count: The number of events in each measurement.
  init(
    _ participantCount: Int, _ durability: Durability, isEmbedded: Bool = false, count: Int,
    in directory: TemporaryDirectory
  ) throws {
    self.count = count
    uses = (isEmbedded ? [Self.clientName] : [Self.clientName, Self.composite]).map {
      ($0, ProcessorUses())
    }
    uses += (1...participantCount).map { ("lamp\($0)", ProcessorUses()) }
    self.participantCount = participantCount
    let name = "lamps-\(participantCount)-\(durability.rawValue)" + (isEmbedded ? "-within" : "")
    topology = try TopologyRun(
      Self.text(named: name, participantCount, durability, isEmbedded: isEmbedded), named: name,
      in: directory)
  }

  /// The processor use per event, summed over all processes.
  var total: (time: Quantity, switches: Quantity) {
    (
      .seconds(uses.reduce(0) { $0 + $1.uses.time.value }),
      .count(uses.reduce(0) { $0 + $1.uses.switchCount.value })
    )
  }

  /// Measures a number of events. Sends each event after the answer to the previous one.
  mutating func measure(isCounted: Bool = true) throws {
    let before = uses.map { use(of: $0.name) }
    let elapsed = try press()
    guard isCounted else { return }
    times.add(elapsed / Double(count))
    for (place, earlier) in before.enumerated() {
      uses[place].uses.add(use(of: uses[place].name).perOperation(of: count, since: earlier))
    }
  }

  private func use(of name: String) -> ProcessorUse {
    name == Self.clientName ? ProcessorUse(of: getpid()) : topology.use(of: name)
  }

  /// Measures the costs per event.
  mutating func measureCosts() throws {
    let before = try counters()
    _ = try press()
    let after = try counters()
    func mean(_ value: KeyPath<Costs, Double>) -> Double {
      (after[keyPath: value] - before[keyPath: value]) / Double(count)
    }
    costs = Costs(
      coordinatorMessages: mean(\.coordinatorMessages),
      participantMessages: mean(\.participantMessages), records: mean(\.records))
  }

  private func press() throws -> Double {
    let client = topology.client
    let count = count
    return try Blocking.run {
      try await withTaskExecutorPreference(client.executor) {
        let start = Clock.nanoseconds
        for _ in 0..<count {
          let reply = try await client.synchronize(Self.composite, Lamp.Event.press)
          guard case .committed = reply else {
            throw HarnessError("a synchronized event was not committed: \(reply)")
          }
        }
        return Double(Clock.nanoseconds - start) / 1e9
      }
    }
  }

  /// If nothing changes for this time, no event is in flight. The time is longer than an
  /// acknowledgement may be delayed to travel with another message.
  private static let quietPeriod: Duration = .milliseconds(300)

  /// Waits until no event is in flight, and returns the counters of the processes.
  private func counters() throws -> Costs {
    let client = topology.client
    return try Blocking.run {
      var last: [NodeStatus] = []
      while true {
        let now = try await client.directory().nodes.compactMap { node in
          var status = node.status
          // Ignore the time, which differs in every answer.
          status?.time = nil
          return status
        }
        if now == last { return Costs(now) }
        last = now
        try await Task.sleep(for: Self.quietPeriod)
      }
    }
  }

  private static func text(
    named name: String, _ participantCount: Int, _ durability: Durability, isEmbedded: Bool
  ) -> String {
    let lamps = (1...participantCount).map { "lamp\($0)" }
    let nodes = lamps.map { "  \($0): { machine: Lamp, durability: \(durability.rawValue) }" }
    let place = isEmbedded ? ", within: \(lamps[0])" : ""
    return """
      topology: \(name)
      program: \(Programs.own)
      nodes:
      \(nodes.joined(separator: "\n"))
      composites:
        \(composite): { components: [\(lamps.joined(separator: ", "))], synchronize: [press]\(place) }
      """
  }
}

extension Lamps.Costs {
  fileprivate init(_ statuses: [NodeStatus]) {
    for status in statuses {
      let messages = status.synchronization.map { Double($0.sent + $0.received) } ?? 0
      if status.composites.isEmpty {
        participantMessages += messages
      } else {
        coordinatorMessages += messages
      }
      records += Double(status.records ?? 0)
    }
  }
}
