import PipeRuntime
import Testing

@Suite("The steps of a composite's nodes in one order")
struct CompositeStepsTests {
  private static func told(
    _ state: String, _ transaction: TransactionID? = nil, entry: ToldStep.Entry = .step,
    sequence: UInt64 = 1
  ) -> CompositeSteps.Told {
    CompositeSteps.Told(
      ToldStep(entry, transaction: transaction, state: JSONValue.string(state).bytes),
      sequence: sequence, stream: 1)
  }

  private let meeting = TransactionID(epoch: 1, sequence: 7)
  private let last = TransactionID(epoch: 1, sequence: 9)

  private func next(
    _ steps: inout CompositeSteps, _ participants: [String]? = ["a", "b"]
  ) -> CompositeSteps.Step? { steps.next(participants: { _ in participants }, last: last) }

  @Test("a node's own steps come in its order, and wait for nobody")
  func own() {
    var steps = CompositeSteps(of: ["a", "b"])
    for state in ["one", "two"] { steps.append(Self.told(state), of: "a") }
    #expect(next(&steps)?.told == ["a": Self.told("one")])
    #expect(next(&steps)?.told == ["a": Self.told("two")])
    #expect(next(&steps) == nil)
    #expect(steps.nodes["a"]?.state == Array(#""two""#.utf8))
  }

  @Test("a synchronized event is one step, once all who took it have told of it")
  func together() {
    var steps = CompositeSteps(of: ["a", "b", "c"])
    steps.append(Self.told("met", meeting), of: "a")
    steps.append(Self.told("after"), of: "a")
    #expect(next(&steps) == nil)
    steps.append(Self.told("before"), of: "b")
    #expect(next(&steps)?.told.keys.sorted() == ["b"])
    #expect(next(&steps) == nil)
    steps.append(Self.told("met", meeting), of: "b")
    let step = next(&steps)
    #expect(step?.told.keys.sorted() == ["a", "b"])
    #expect(step?.transaction == meeting)
    #expect(next(&steps)?.told == ["a": Self.told("after")])
  }

  @Test("what a node has forgotten with its process is not waited for")
  func afresh() {
    var steps = CompositeSteps(of: ["a", "b"])
    steps.append(Self.told("met", meeting), of: "a")
    #expect(next(&steps) == nil)
    steps.append(Self.told("start", entry: .first), of: "b")
    #expect(next(&steps)?.told.keys.sorted() == ["b"])
    #expect(next(&steps)?.told.keys.sorted() == ["a"])
  }

  @Test("what a new process takes after it has joined is waited for")
  func joined() {
    var steps = CompositeSteps(of: ["a", "b"])
    steps.began("b", after: TransactionID(epoch: 1, sequence: 6))
    steps.append(Self.told("met", meeting), of: "a")
    steps.append(Self.told("start", entry: .first), of: "b")
    #expect(next(&steps)?.told.keys.sorted() == ["b"])
    #expect(next(&steps) == nil)
    steps.append(Self.told("met", meeting), of: "b")
    #expect(next(&steps)?.told.keys.sorted() == ["a", "b"])
  }

  @Test("each node has its turn, however fast another is")
  func turns() {
    var steps = CompositeSteps(of: ["a", "b"])
    for _ in 0..<3 { for name in ["a", "b"] { steps.append(Self.told("on"), of: name) } }
    let order = (0..<4).compactMap { _ in next(&steps)?.told.keys.first }
    #expect(order == ["a", "b", "a", "b"])
  }

  @Test("nor what it had taken before it told of its steps, nor what it has left behind")
  func passed() {
    var steps = CompositeSteps(of: ["a", "b"])
    steps.append(Self.told("met", meeting), of: "a")
    steps.append(Self.told("standing", meeting, entry: .none), of: "b")
    let step = next(&steps)
    #expect(step?.told.keys.sorted() == ["a"])
    #expect(step?.isEntry == true)
    let standing = next(&steps)
    #expect(standing?.told.keys.sorted() == ["b"])
    #expect(standing?.isEntry == false)
    steps.append(Self.told("met", TransactionID(epoch: 1, sequence: 8)), of: "a")
    steps.append(Self.told("later", TransactionID(epoch: 1, sequence: 9)), of: "b")
    #expect(next(&steps)?.told.keys.sorted() == ["a"])
  }

  @Test("a transaction that is forgotten is a step of those who tell of it")
  func forgotten() {
    var steps = CompositeSteps(of: ["a", "b"])
    steps.append(Self.told("met", meeting), of: "a")
    #expect(next(&steps, nil)?.told.keys.sorted() == ["a"])
  }

  @Test("a step that is told without its state keeps nobody waiting")
  func untold() {
    var steps = CompositeSteps(of: ["a", "b"])
    steps.append(Self.told("met", meeting), of: "a")
    steps.append(
      CompositeSteps.Told(
        ToldStep(.step, transaction: meeting, state: nil), sequence: 1, stream: 1), of: "b")
    #expect(next(&steps)?.told.keys.sorted() == ["a", "b"])
    #expect(steps.nodes["b"] == CompositeSteps.Node(state: nil, passed: meeting))
  }

  @Test("who waits for whom is known: not those who have told of it behind something else")
  func waits() {
    var steps = CompositeSteps(of: ["a", "b", "c"])
    let later = TransactionID(epoch: 1, sequence: 8)
    let participants = { (transaction: TransactionID) -> [String]? in
      transaction == later ? ["b", "c"] : ["a", "b"]
    }
    #expect(!steps.hasWaiting && steps.waits(participants: participants) == [])
    steps.append(Self.told("met", later), of: "b")
    steps.append(Self.told("met", meeting), of: "a")
    steps.append(Self.told("met", meeting), of: "b")
    #expect(steps.hasWaiting)
    #expect(
      steps.waits(participants: participants) == [
        CompositeSteps.Wait(later, told: ["b"], missing: ["c"])
      ])
    steps.append(Self.told("met", later), of: "c")
    #expect(steps.waits(participants: participants) == [])
  }

  @Test("a wait is told when it has lasted, then after twice the time, and again when it is back")
  func toldWaits() {
    let wait = CompositeSteps.Wait(meeting, told: ["a"], missing: ["b"])
    var waits = StepWaits()
    let start = ContinuousClock.now
    func told(_ seconds: Int, _ present: [CompositeSteps.Wait] = [wait]) -> [Duration] {
      waits.look(present, at: start + .seconds(seconds)).map(\.duration)
    }
    #expect([0, 4].flatMap { told($0) } == [])
    #expect([5, 9, 10, 19, 20].flatMap { told($0) } == [.seconds(5), .seconds(10), .seconds(20)])
    #expect(told(21, []) == [] && told(30) == [] && told(35) == [.seconds(5)])
    #expect(
      StepWaits.Told(wait, for: .seconds(5)).warning
        == "synchronized event 1.7: 'a' told of it at least 5 s ago, and 'b' not yet: until then what "
        + "'a' did after it counts for no pipe of a composite. Does it run?")
  }

  @Test(
    "whatever comes first, and whoever dies, the order is one that the nodes had", arguments: 1...60
  )
  func anyOrder(seed: UInt64) {
    var random = SplitMix64(seed: seed)
    let names = ["a", "b", "c"]
    // What has happened: steps of one node, and meetings of some, each under a number of its own.
    var histories: [String: [CompositeSteps.Told]] = [:]
    var meetings: [TransactionID: [String]] = [:]
    for number in 1...40 {
      let movers = names.filter { _ in Bool.random(using: &random) }
      let transaction =
        movers.count > 1 ? TransactionID(epoch: 1, sequence: UInt64(number)) : nil
      if let transaction { meetings[transaction] = movers }
      for name in movers {
        let sequence = UInt64(histories[name, default: []].count + 1)
        histories[name, default: []].append(
          Self.told("\(number)", transaction, sequence: sequence))
      }
    }
    var steps = CompositeSteps(of: names)
    var taken: [String: Int] = [:]
    var arrived: [String: Int] = [:]
    var orders: [String: [CompositeSteps.Told]] = [:]
    while taken.values.reduce(0, +) < histories.values.map(\.count).reduce(0, +) {
      if Int.random(in: 0..<20, using: &random) == 0 {
        // The next process: what was not taken comes again.
        steps = CompositeSteps(of: names, recorded: steps.nodes)
        arrived = taken
      }
      let name = names.randomElement(using: &random) ?? "a"
      let place = arrived[name, default: 0]
      if let history = histories[name], place < history.count {
        steps.append(history[place], of: name)
        arrived[name] = place + 1
      }
      while let step = steps.next(participants: { meetings[$0] }, last: .zero) {
        if let transaction = step.transaction {
          #expect(step.told.keys.sorted() == meetings[transaction])
        } else {
          #expect(step.told.count == 1)
        }
        for (name, told) in step.told {
          taken[name, default: 0] += 1
          orders[name, default: []].append(told)
        }
      }
    }
    #expect(orders == histories)
  }
}
