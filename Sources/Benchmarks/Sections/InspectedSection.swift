import PipeRuntime
import PipeSupervision

/// What a page in a browser costs two nodes at full rate, beside a hundred idle ones: none, while it is
/// looked at, and where its inspector stands still or has been killed; and what the inspector itself takes.
struct InspectedSection {
  private enum Page: String, CaseIterable {
    case none = "no page"
    case live = "page"
    case stopped = "page, stopped"
    case killed = "page, killed"
  }

  private let setting: Setting
  private let directory: TemporaryDirectory

  init(_ setting: Setting) throws {
    self.setting = setting
    directory = try TemporaryDirectory()
  }

  private struct Measured {
    var elapsed = Samples()
    var uses = ProcessorUses()
    var ratios = (elapsed: Samples(), time: Samples())
  }

  func run(_ report: inout Report) throws {
    let count = setting.pick(600_000, quick: 160_000)
    let repeats = setting.pick(7, quick: 3)
    let flow = try Flow(
      hasPayload: false, count: count, idle: setting.pick(100, quick: 20), in: directory)
    var measured: [Page: Measured] = [:]
    var inspector = (share: Samples(), memory: Samples())
    // The first round is thrown away, and every other one goes backwards, as in the section `watched`.
    for round in 0...repeats {
      var results: [Page: (elapsed: Double, use: ProcessorUse)] = [:]
      for page in round.isMultiple(of: 2) ? Page.allCases : Page.allCases.reversed() {
        results[page] = try measure(flow.topology, page, count, &inspector)
      }
      guard round > 0, let none = results[.none] else { continue }
      for (page, result) in results {
        measured[page, default: Measured()].elapsed.add(result.elapsed)
        measured[page, default: Measured()].uses.add(result.use)
        measured[page, default: Measured()].ratios.elapsed.add(result.elapsed / none.elapsed)
        measured[page, default: Measured()].ratios.time.add(
          result.use.total.time / none.use.total.time)
      }
    }
    guard let none = measured[.none] else { return }
    for page in Page.allCases {
      guard let own = measured[page] else { continue }
      let isFirst = page == .none
      report.add(
        Figure(
          name: "time of an event, \(page.rawValue)", value: .seconds(own.elapsed.median),
          baseline: isFirst ? nil : .seconds(none.elapsed.median)))
      report.add(
        Figure(
          name: "processor time of an event, \(page.rawValue)", value: own.uses.time,
          baseline: isFirst ? nil : none.uses.time))
      guard !isFirst else { continue }
      report.add(
        Figure(
          name: "time, \(page.rawValue), of that without",
          value: .count(own.ratios.elapsed.median), target: .atMost(.count(1.02))))
      report.add(
        Figure(
          name: "processor time, \(page.rawValue), of that without",
          value: .count(own.ratios.time.median), target: .atMost(.count(1.02))))
    }
    report.add(
      Figure(
        name: "the inspector, cores of processor time, page looked at",
        value: .count(inspector.share.median), target: .atMost(.count(0.10))))
    report.add(
      Figure(
        name: "the inspector, resident", value: .bytes(Int(inspector.memory.median)),
        target: .atMost(.bytes(80_000_000))))
    report.note(
      "of the sink, medians of \(repeats) × \(count.grouped) events without payload, each a step; judged is the "
        + "median of the ratios in the same round")
  }

  private func measure(
    _ topology: TopologyRun, _ page: Page, _ count: Int,
    _ inspector: inout (share: Samples, memory: Samples)
  ) throws -> (elapsed: Double, use: ProcessorUse) {
    var standIn: PageStandIn?
    if page != .none { standIn = try PageStandIn(topology.name, in: directory) }
    defer { if page != .killed { standIn?.kill() } }
    switch page {
    case .stopped: standIn?.inspector.signal(.stop)
    case .killed: standIn?.kill()
    case .none, .live: break
    }
    let pid = page == .live ? standIn?.inspector.pid : nil
    let start = (use: pid.map { ProcessorUse(of: $0) }, time: ContinuousClock.now)
    let before = topology.use(of: "sink")
    let elapsed = try topology.measure("source")
    let use = topology.use(of: "sink").each(of: count, since: before)
    if let pid, let first = start.use {
      let time = ProcessorUse(of: pid).total.time - first.total.time
      let span = ContinuousClock.now - start.time
      inspector.share.add(time / (Double(span.wholeMilliseconds) / 1_000))
      inspector.memory.add(Double(ProcessMemory(of: pid).resident))
    }
    return (elapsed / Double(count), use)
  }
}
