import PipeModelChecker
import PipeRuntime
import PipeSupervision

/// Measures full state searches: models that SPIN also searches, and the shipped topologies.
struct SearchSection {
  private let setting: Setting
  private let directory: TemporaryDirectory

  init(_ setting: Setting) throws {
    self.setting = setting
    directory = try TemporaryDirectory()
  }

  func run(_ report: inout Report) throws {
    try Programs.check()
    let peer = SpinPeer(in: directory)
    let philosophers: SearchedModel = try setting.pick(
      .philosophers(12, states: 1_684_801, steps: 12_912_480),
      quick: .philosophers(8, states: 14_158, steps: 72_336))
    try search(philosophers, peer, atLeast: 10, &report)
    try search(
      .ring(setting.pick(10, quick: 6), capacity: 2), peer, atLeast: 3, &report)
    if peer == nil { report.note(SpinPeer.missing) }
    report.note("steps a second; SPIN searches the same tables, exactly, and with one thread")
    try searchShipped(&report)
  }

  private struct SearchRun {
    var result: ExplorationResult
    /// The duration of the search. Unit: seconds.
    var elapsed: Double
    var promela: String
  }

  private func search(
    _ searchedModel: SearchedModel, _ peer: SpinPeer?, atLeast ratio: Double, _ report: inout Report
  ) throws {
    var baseline: SpinPeer.Result?
    for threads in [1, 2] {
      var rates = Samples()
      var last: SearchRun?
      for _ in 0..<setting.pick(3, quick: 1) {
        let search = Blocking.run { await Self.search(searchedModel, threads: threads) }
        try check(
          search.result.stateCount, search.result.stepCount, against: searchedModel, "the search")
        rates.add(Double(search.result.stepCount) / search.elapsed)
        last = search
      }
      guard let last else { return }
      if let peer, baseline == nil {
        let found = try peer.search(last.promela, states: last.result.stateCount)
        guard found.states == last.result.stateCount, found.steps == last.result.stepCount else {
          throw HarnessError(
            "\(searchedModel.name): SPIN has \(found.states) states and \(found.steps) steps, and the "
              + "search \(last.result.stateCount) and \(last.result.stepCount)")
        }
        baseline = found
      }
      report.add(
        Figure(
          name: "\(searchedModel.name), \(threads == 1 ? "1 thread" : "2 threads")",
          value: .perSecond(rates.median),
          baseline: baseline.map { .perSecond(Double($0.steps) / $0.elapsed) },
          target: .ratioAtLeast(ratio)))
      guard threads == 1 else { continue }
      report.add(
        Figure(
          name: "the same: bytes a state, of \(last.result.stateCount.grouped)",
          value: .count(Double(last.result.peakByteCount) / Double(last.result.stateCount)),
          target: .atMost(.count(40))))
    }
  }

  private func check(
    _ states: Int, _ steps: Int, against searchedModel: SearchedModel, _ subject: String
  ) throws {
    guard states == searchedModel.states ?? states, steps == searchedModel.steps ?? steps else {
      throw HarnessError(
        "\(searchedModel.name): \(subject) has \(states) states and \(steps) steps, which are to be "
          + "\(searchedModel.states ?? 0) and \(searchedModel.steps ?? 0)")
    }
  }

  private static func search(_ searchedModel: SearchedModel, threads: Int) async -> SearchRun {
    var options = ExplorationOptions()
    options.threadCount = threads
    let start = Clock.nanoseconds
    var exploration = PipeModelChecker.Exploration(searchedModel.model, options: options)
    let result = await exploration.run()
    let elapsed = Double(Clock.nanoseconds - start) / 1e9
    exploration.model.fillQueues()
    return SearchRun(result: result, elapsed: elapsed, promela: exploration.model.promela())
  }

  /// Searches every topology of the repository, one after another, with the command that a user
  /// would run.
  private func searchShipped(_ report: inout Report) throws {
    let files = FileSystem.entryNames(of: "topologies").filter { $0.hasSuffix(".yaml") }.sorted()
      .map { "topologies/" + $0 }
    guard !files.isEmpty else {
      return report.note("there is no folder 'topologies': call 'benchmarks' in the checkout")
    }
    let command = OrchestratorCommand(directory: directory)
    let output = directory.uniquePath("check")
    let start = Clock.nanoseconds
    var process = try command.spawn(["check", "--explore"] + files, writingTo: output)
    let exit = process.wait()
    let elapsed = Double(Clock.nanoseconds - start) / 1e9
    // A search with findings, or an incomplete search, is a valid result.
    guard case .exited(let code)? = exit, [0, 1, 6].contains(code) else {
      throw command.failure(["check", "--explore"], exit)
    }
    report.add(
      Figure(
        name: "check --explore of \(files.count) topologies", value: .seconds(elapsed),
        target: .atMost(.seconds(5))))
  }
}

/// A model whose states our search and SPIN both visit completely.
struct SearchedModel {
  let name: String
  private(set) var model = ExplorationModel()
  /// The number of states and of steps; `nil` unless they are known from another source.
  var states: Int?
  var steps: Int?

  private init(_ name: String) { self.name = name }

  /// Makes dining philosophers. Philosopher i takes fork i, and then fork i + 1.
  static func philosophers(
    _ count: Int, states: Int? = nil, steps: Int? = nil
  ) throws -> SearchedModel {
    var searchedModel = SearchedModel("\(count) philosophers, left fork first")
    searchedModel.states = states
    searchedModel.steps = steps
    let philosophers = (0..<count).map { _ in searchedModel.model.addComponent(stateCount: 5) }
    let forks = (0..<count).map { _ in searchedModel.model.addComponent(stateCount: 3) }
    for (index, philosopher) in philosophers.enumerated() {
      // A fork is free, or held by its own philosopher, or held by the preceding philosopher.
      let (own, next) = (forks[index], forks[(index + 1) % count])
      try searchedModel.add((philosopher, 0, 1), (own, 0, 1))
      try searchedModel.add((philosopher, 1, 2), (next, 0, 2))
      try searchedModel.add((philosopher, 2, 3))
      try searchedModel.add((philosopher, 3, 4), (own, 1, 0))
      try searchedModel.add((philosopher, 4, 0), (next, 2, 0))
    }
    return searchedModel
  }

  /// Makes a ring of relays. Each relay takes a token from the preceding pipe, holds it, and puts
  /// it into the next pipe.
  /// - Parameter capacity: The capacity of each pipe. Every second pipe is full at the start.
  static func ring(_ count: Int, capacity: Int) throws -> SearchedModel {
    var searchedModel = SearchedModel("a ring of \(count) relays, pipes of \(capacity)")
    let relays = (0..<count).map { _ in searchedModel.model.addComponent(stateCount: 2) }
    let pipes = (0..<count).map { index in
      searchedModel.model.addQueue(
        capacity: capacity,
        contents: index.isMultiple(of: 2) ? Array(repeating: 0, count: capacity) : [])
    }
    for (index, relay) in relays.enumerated() {
      _ = try searchedModel.model.addVector([
        .table(relay, cells(from: 0, to: 1, of: 2)), .queue(pipes[index], .removeHead(0)),
      ])
      _ = try searchedModel.model.addVector([
        .table(relay, cells(from: 1, to: 0, of: 2)),
        .queue(pipes[(index + 1) % count], .append(0)),
      ])
    }
    return searchedModel
  }

  /// Adds a vector that moves some components, each from one local state to another.
  private mutating func add(_ moves: (component: Int, from: Int, to: Int)...) throws {
    _ = try model.addVector(
      moves.map { move in
        .table(
          move.component,
          Self.cells(from: move.from, to: move.to, of: model.stateCount(of: move.component)))
      })
  }

  private static func cells(from: Int, to: Int, of count: Int) -> [ExplorationModel.Cell] {
    (0..<count).map { $0 == from ? .leads(to: to) : .blocked }
  }
}
