import PipeMachines
import PipeNode
import PipeSupport
import PipeWire
import Testing

@Suite("The order of the steps of a composite's nodes")
struct CompositeStepsTests {
  private static func reported(
    _ state: String, _ transaction: TransactionID? = nil, entry: StepReport.Entry = .step,
    index: Int64 = 1
  ) -> CompositeSteps.Report {
    CompositeSteps.Report(
      StepReport(entry, transaction: transaction, state: JSONValue.string(state).bytes),
      index: index)
  }

  private let meeting = TransactionID(epoch: 1, sequence: 7)
  private let last = TransactionID(epoch: 1, sequence: 9)

  private func next(
    _ steps: inout CompositeSteps, _ participants: [String]? = ["a", "b"]
  ) -> CompositeSteps.Step? { steps.next(participants: { _ in participants }, last: last) }

  @Test(
    "A composite processes a node's unsynchronized steps in order, without waiting for other nodes")
  func own() {
    var steps = CompositeSteps(of: ["a", "b"])
    for state in ["one", "two"] { steps.append(Self.reported(state), of: "a") }
    #expect(next(&steps)?.reported == ["a": Self.reported("one")])
    #expect(next(&steps)?.reported == ["a": Self.reported("two")])
    #expect(next(&steps) == nil)
    #expect(steps.nodesByName["a"]?.state == Array(#""two""#.utf8))
  }

  @Test("A synchronized event becomes one step when all participants have reported the event")
  func together() {
    var steps = CompositeSteps(of: ["a", "b", "c"])
    steps.append(Self.reported("met", meeting), of: "a")
    steps.append(Self.reported("after"), of: "a")
    #expect(next(&steps) == nil)
    steps.append(Self.reported("before"), of: "b")
    #expect(next(&steps)?.reported.keys.sorted() == ["b"])
    #expect(next(&steps) == nil)
    steps.append(Self.reported("met", meeting), of: "b")
    let step = next(&steps)
    #expect(step?.reported.keys.sorted() == ["a", "b"])
    #expect(step?.transaction == meeting)
    #expect(next(&steps)?.reported == ["a": Self.reported("after")])
  }

  @Test("A participant's internal transition is a part of the synchronized event's step")
  func internalTransition() {
    var steps = CompositeSteps(of: ["a", "b"])
    steps.append(Self.reported("met", meeting), of: "a")
    #expect(next(&steps) == nil)
    steps.append(Self.reported("met", meeting, entry: .internal), of: "b")
    let step = next(&steps)
    #expect(step?.reported.keys.sorted() == ["a", "b"])
    #expect(step?.transaction == meeting)
  }

  @Test("A composite does not wait for a step that a node has lost in a crash")
  func afresh() {
    var steps = CompositeSteps(of: ["a", "b"])
    steps.append(Self.reported("met", meeting), of: "a")
    #expect(next(&steps) == nil)
    steps.append(Self.reported("start", entry: .first), of: "b")
    #expect(next(&steps)?.reported.keys.sorted() == ["b"])
    #expect(next(&steps)?.reported.keys.sorted() == ["a"])
  }

  @Test("A composite waits for a step that a restarted node takes after joining")
  func joined() {
    var steps = CompositeSteps(of: ["a", "b"])
    let before = TransactionID(epoch: 1, sequence: 6)
    steps.append(Self.reported("met", meeting), of: "a")
    steps.append(Self.reported("start", before, entry: .first), of: "b")
    #expect(next(&steps)?.reported.keys.sorted() == ["b"])
    #expect(next(&steps) == nil)
    steps.append(Self.reported("met", meeting), of: "b")
    #expect(next(&steps)?.reported.keys.sorted() == ["a", "b"])
  }

  @Test("A coordinator processes reported steps in the order in which they arrive")
  func received() {
    var steps = CompositeSteps(of: ["a", "b"])
    for (index, name) in ["b", "a", "a", "b"].enumerated() {
      steps.append(Self.reported("on", index: Int64(index)), of: name)
    }
    #expect((0..<4).compactMap { _ in next(&steps)?.reported.keys.first } == ["b", "a", "a", "b"])
  }

  @Test(
    "Steps that a synchronized event causes wait until all participants have reported the event")
  func behindMeeting() {
    var steps = CompositeSteps(of: ["a", "b", "c"])
    steps.append(Self.reported("met", meeting, index: 1), of: "a")
    steps.append(Self.reported("caused", index: 2), of: "c")
    #expect(next(&steps) == nil)
    steps.append(Self.reported("before", index: 3), of: "b")
    #expect(next(&steps)?.reported.keys.sorted() == ["b"])
    #expect(next(&steps) == nil)
    steps.append(Self.reported("met", meeting, index: 4), of: "b")
    #expect(next(&steps)?.reported.keys.sorted() == ["a", "b"])
    #expect(next(&steps)?.reported.keys.sorted() == ["c"])
  }

  @Test("A composite does not wait for a step that is older than a node's first or latest report")
  func passed() {
    var steps = CompositeSteps(of: ["a", "b"])
    steps.append(Self.reported("met", meeting), of: "a")
    steps.append(Self.reported("standing", meeting, entry: .none, index: 2), of: "b")
    let step = next(&steps)
    #expect(step?.reported.keys.sorted() == ["a"])
    #expect(step?.isEntry == true)
    let standing = next(&steps)
    #expect(standing?.reported.keys.sorted() == ["b"])
    #expect(standing?.isEntry == false)
    steps.append(Self.reported("met", TransactionID(epoch: 1, sequence: 8)), of: "a")
    steps.append(Self.reported("later", TransactionID(epoch: 1, sequence: 9)), of: "b")
    #expect(next(&steps)?.reported.keys.sorted() == ["a"])
  }

  @Test("A forgotten transaction counts as a step of only the nodes that have reported it")
  func forgotten() {
    var steps = CompositeSteps(of: ["a", "b"])
    steps.append(Self.reported("met", meeting), of: "a")
    #expect(next(&steps, nil)?.reported.keys.sorted() == ["a"])
  }

  @Test("A report without a state does not delay the other nodes' steps")
  func reportWithoutState() {
    var steps = CompositeSteps(of: ["a", "b"])
    steps.append(Self.reported("met", meeting), of: "a")
    steps.append(
      CompositeSteps.Report(
        StepReport(.step, transaction: meeting, state: nil), index: 1), of: "b")
    #expect(next(&steps)?.reported.keys.sorted() == ["a", "b"])
    #expect(steps.nodesByName["b"] == CompositeSteps.Node(state: nil, completeThrough: meeting))
  }

  @Test("A composite lists which nodes wait and which participants have not reported")
  func waits() {
    var steps = CompositeSteps(of: ["a", "b", "c"])
    let later = TransactionID(epoch: 1, sequence: 8)
    let participants = { (transaction: TransactionID) -> [String]? in
      transaction == later ? ["b", "c"] : ["a", "b"]
    }
    #expect(!steps.hasWaiting && steps.waits(participants: participants) == [])
    steps.append(Self.reported("met", later), of: "b")
    steps.append(Self.reported("met", meeting), of: "a")
    steps.append(Self.reported("met", meeting), of: "b")
    #expect(steps.hasWaiting)
    #expect(
      steps.waits(participants: participants) == [
        CompositeSteps.Wait(later, reported: ["b"], missing: ["c"])
      ])
    steps.append(Self.reported("met", later), of: "c")
    #expect(steps.waits(participants: participants) == [])
  }

  @Test("A long wait for a report is logged, and logged again at doubled intervals")
  func toldWaits() {
    let wait = CompositeSteps.Wait(meeting, reported: ["a"], missing: ["b"])
    var waits = StepWaits()
    let start = ContinuousClock.now
    func reported(_ seconds: Int, _ present: [CompositeSteps.Wait] = [wait]) -> [Duration] {
      waits.checkWaits(present, at: start + .seconds(seconds)).map(\.duration)
    }
    #expect([0, 4].flatMap { reported($0) } == [])
    #expect(
      [5, 9, 10, 19, 20].flatMap { reported($0) } == [.seconds(5), .seconds(10), .seconds(20)])
    #expect(reported(21, []) == [] && reported(30) == [] && reported(35) == [.seconds(5)])
    #expect(
      StepWaits.Report(wait, for: .seconds(5)).warning
        == "synchronized event 1.7: reported by 'a' at least 5 s ago, but not yet by 'b'; until then, the "
        + "pipes of composites do not see the later steps of 'a'; is 'b' running?")
  }

  /// Nodes that take steps, send each other events and synchronize at random. A node with an
  /// unreceived report sends nothing and does not synchronize.
  private struct Nodes {
    static let names = ["a", "b", "c"]
    var random: SplitMix64
    /// Everything that happened, each with the steps that caused it. The order is one of several
    /// possible ones.
    private(set) var causes: [String: Set<String>] = [:]
    /// The steps that each node knows of.
    private var known: [String: Set<String>] = [:]
    private(set) var meetings: [TransactionID: [String]] = [:]
    /// The reports that were not received yet.
    private var reports: [String: [(state: String, transaction: TransactionID?)]] = [:]
    private var count = 0

    init(seed: UInt64) { random = SplitMix64(seed: seed) }

    private func mayAct(_ name: String) -> Bool { reports[name, default: []].isEmpty }

    private mutating func step(_ names: [String], _ transaction: TransactionID?) {
      let past = names.reduce(into: Set<String>()) { $0.formUnion(known[$1, default: []]) }
      for name in names {
        let state = "\(name) \(count)"
        causes[state] = past
        known[name, default: []].formUnion(past.union(names.map { "\($0) \(count)" }))
        reports[name, default: []].append((state, transaction))
      }
    }

    /// Lets one of the nodes act.
    mutating func act() {
      count += 1
      let name = Self.names.randomElement(using: &random) ?? "a"
      switch Int.random(in: 0..<4, using: &random) {
      case 0:
        let met = Self.names.filter { mayAct($0) && Bool.random(using: &random) }
        guard met.count > 1 else { return }
        let transaction = TransactionID(epoch: 1, sequence: UInt64(count))
        meetings[transaction] = met
        step(met, transaction)
      case 1 where mayAct(name):
        let other = Self.names.randomElement(using: &random) ?? "a"
        known[other, default: []].formUnion(known[name, default: []])
      default: step([name], nil)
      }
    }

    /// Returns a report that the coordinator receives now.
    mutating func received() -> (name: String, state: String, transaction: TransactionID?)? {
      let ready = Self.names.filter { !mayAct($0) }
      guard let name = ready.randomElement(using: &random) else { return nil }
      let report = reports[name, default: []].removeFirst()
      return (name, report.state, report.transaction)
    }
  }

  @Test(
    "Steps are ordered by causality, whatever order reports arrive in and whichever node crashes",
    arguments: 1...200
  )
  func anyOrder(seed: UInt64) {
    var nodes = Nodes(seed: seed)
    var steps = CompositeSteps(of: Nodes.names)
    // The content of a journal: all reports that were received and not applied.
    var recorded: [(name: String, reported: CompositeSteps.Report)] = []
    var taken: Set<String> = []
    var index: Int64 = 0
    for number in 0..<400 {
      if number < 300 { nodes.act() }
      if Int.random(in: 0..<20, using: &nodes.random) == 0 {
        steps = CompositeSteps(of: Nodes.names, recorded: steps.nodesByName)
        for (name, reported) in recorded { steps.append(reported, of: name) }
      }
      if let (name, state, transaction) = nodes.received() {
        index += 1
        let reported = Self.reported(state, transaction, index: index)
        steps.append(reported, of: name)
        recorded.append((name, reported))
      }
      while let step = steps.next(participants: { nodes.meetings[$0] }, last: .zero) {
        let states = step.reported.values.compactMap { reported in
          reported.step.state.map { String(decoding: $0.dropFirst().dropLast(), as: UTF8.self) }
        }
        if let transaction = step.transaction {
          #expect(step.reported.keys.sorted() == nodes.meetings[transaction])
        }
        let early = states.filter { nodes.causes[$0]?.isSubset(of: taken) != true }
        #expect(early == [], "seed \(seed): before what they follow from")
        taken.formUnion(states)
        recorded.removeAll { step.reported[$0.name]?.index == $0.reported.index }
      }
    }
    #expect(taken == Set(nodes.causes.keys), "seed \(seed)")
  }
}
