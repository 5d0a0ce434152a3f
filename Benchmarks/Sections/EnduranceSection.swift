import PipeRuntime

/// Measures whether the memory and the journals of nodes stay stable over millions of recorded
/// events.
struct EnduranceSection {
  private let setting: Setting

  /// The rounds after which memory and journals are measured. A run has ten rounds.
  private static let sampledRounds = [1, 5, 10]

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let part = setting.pick(1_000_000, quick: 160_000)
    let directory = try TemporaryDirectory()
    var flow = try Flow(durability: .process, count: part, in: directory)
    var samples: [String: (memory: [Int], journal: [Int])] = [:]
    for round in 1...10 {
      try flow.measure()
      guard Self.sampledRounds.contains(round) else { continue }
      for node in ["source", "sink"] {
        samples[node, default: ([], [])].memory.append(flow.topology.residentByteCount(of: node))
        samples[node]!.journal.append(flow.topology.journalByteCount(of: node))
      }
    }
    let (first, last) = (part.grouped, (10 * part).grouped)
    for node in ["source", "sink"] {
      let (memory, journal) = samples[node]!
      report.add(
        Figure(
          name: "\(node), resident after \(last); \(first)", value: .bytes(memory[2]),
          baseline: .bytes(memory[0]), target: .ratioAtMost(1.05)))
      report.add(
        Figure(
          name: "\(node), its journal's files", value: .bytes(journal[2]),
          baseline: .bytes(journal[0]), target: .atMost(.megabytes(40))))
      report.note(
        "at \((5 * part).grouped): \(Quantity.bytes(memory[1])) resident, "
          + "\(Quantity.bytes(journal[1])) of journal")
    }
    report.note(
      "baseline: the same node after the first \(first) events; "
        + "\(Quantity.perSecond(flow.rates.median)) in the middle")
  }
}

/// Measures the rate and the processor time per event, for growing numbers of nodes.
struct GrowthSection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let sizes = setting.pick([2, 10, 50, 100], quick: [2, 10])
    let duration = setting.pick(Duration.seconds(1.5), quick: .seconds(0.5))
    for shape in TokenNetwork.Shape.allCases {
      var first: TokenNetwork?
      for size in sizes {
        let crowd = try TokenNetwork(shape, size, for: duration)
        let name = "\(shape.rawValue), \(size) nodes"
        report.add(
          Figure(
            name: "\(name): events a second of all", value: .perSecond(crowd.rate),
            baseline: first.map { .perSecond($0.rate) }))
        report.add(
          Figure(
            name: "\(name): processor time of an event", value: .seconds(crowd.time),
            baseline: first.map { .seconds($0.time) }))
        report.add(
          Figure(
            name: "\(name): voluntary switches of an event", value: .count(crowd.switches),
            baseline: first.map { .count($0.switches) }))
        if first == nil { first = crowd }
      }
    }
    report.note(
      "baselines: the same shape with \(sizes[0]) nodes. Each event is a step that sends one on; there are"
    )
    report.note(
      "16 for each node, without payload and without journals. The middle of the star waits until it has one of"
    )
    report.note("each other node, and sends one to each; of random pipes three lead from each node")
  }
}
