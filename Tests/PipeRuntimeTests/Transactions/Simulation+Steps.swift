import PipeRuntime

extension Simulation {
  /// Runs with faults, then without until nothing is under way.
  mutating func run() {
    for _ in 0..<settings.steps { step() }
    heal()
  }

  /// Everything comes back, no more faults; whatever waits gets what it waits for.
  mutating func heal() {
    isHealing = true
    for index in coordinators.indices where coordinators[index].machine == nil {
      deliver(coordinators[index].restart(), from: index)
    }
    for name in names {
      if participants[name]?.machine == nil {
        deliver(participants[name]?.restart() ?? [], from: name)
      }
      connect(name)
    }
    for index in coordinators.indices { reconnectCallers(of: index) }
    settle()
  }

  /// Goes on until nothing is under way, or for very long.
  mutating func settle() {
    for _ in 0..<5_000 {
      if isAtRest { return }
      for name in names where participants[name]?.isOpen == false {
        takeOwnStep(name, isOpen: true)
      }
      // Where nothing is lost, time is long beside a message.
      if let move = moves.randomElement(using: &random) { make(move) } else { fireTimer() }
    }
  }

  var isAtRest: Bool {
    coordinators.allSatisfy { $0.machine?.isIdle == true && $0.pending.isEmpty }
      && participants.values.allSatisfy {
        $0.machine?.takesInputs == true && $0.pending.isEmpty && $0.running.isEmpty
      }
      && names.allSatisfy {
        toParticipant[$0]!.messages.isEmpty && toCoordinator[$0]!.messages.isEmpty
      }
      && requests.allSatisfy(\.messages.isEmpty) && replies.allSatisfy(\.messages.isEmpty)
  }

  /// What can happen by itself.
  private enum Move {
    case toParticipant(String), toCoordinator(String), participantRecord(String)
    case transition(String)
    case request(Int), reply(Int), coordinatorRecord(Int)
  }

  private var moves: [Move] {
    var moves: [Move] = []
    for name in names {
      if isUp[name]! {
        if !toParticipant[name]!.messages.isEmpty { moves.append(.toParticipant(name)) }
        if !toCoordinator[name]!.messages.isEmpty { moves.append(.toCoordinator(name)) }
      }
      if !participants[name]!.pending.isEmpty { moves.append(.participantRecord(name)) }
      if !participants[name]!.running.isEmpty { moves.append(.transition(name)) }
    }
    for index in coordinators.indices {
      if coordinators[index].machine != nil {
        if !requests[index].messages.isEmpty { moves.append(.request(index)) }
      }
      if !replies[index].messages.isEmpty { moves.append(.reply(index)) }
      if !coordinators[index].pending.isEmpty { moves.append(.coordinatorRecord(index)) }
    }
    return moves
  }

  private mutating func make(_ move: Move) {
    switch move {
    case .toParticipant(let name): carryToParticipant(name)
    case .toCoordinator(let name): carryToCoordinator(name)
    case .participantRecord(let name):
      deliver(participants[name]?.record() ?? [], from: name)
    case .transition(let name): deliver(participants[name]?.endTransition() ?? [], from: name)
    case .request(let index): carryRequest(index)
    case .reply(let index): carryReply(index)
    case .coordinatorRecord(let index): deliver(coordinators[index].record(), from: index)
    }
  }

  private mutating func fireTimer() {
    let index = Int.random(in: coordinators.indices, using: &random)
    let name = names.randomElement(using: &random)!
    if participants[name]?.queryTimerRuns == true {
      deliver(participants[name]?.queryTimerFired() ?? [], from: name)
    }
    if participants[name]?.limited != nil {
      deliver(participants[name]?.passLimit() ?? [], from: name)
    }
    if let place = coordinators[index].timers.indices.randomElement(using: &random) {
      deliver(coordinators[index].fire(place), from: index)
    }
  }

  /// One thing happens.
  mutating func step() {
    let name = names.randomElement(using: &random)!
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<84: if let move = moves.randomElement(using: &random) { make(move) }
    case 84..<86: fireTimer()
    case 86..<89:
      takeOwnStep(name, isOpen: Int.random(in: 0..<4, using: &random) > 0)
    case 89..<94: askSomething()
    default:
      if settings.hasFaults {
        fault(name, Int.random(in: coordinators.indices, using: &random))
      }
    }
  }

  /// A participant opens or closes; its feed tells of it, or that is lost.
  private mutating func takeOwnStep(_ name: String, isOpen: Bool) {
    guard let before = participants[name]?.version else { return }
    deliver(participants[name]?.step(isOpen: isOpen) ?? [], from: name)
    guard let version = participants[name]?.version, version > before,
      Bool.random(using: &random)
    else { return }
    let index = Self.coordinator(of: name)
    deliver(coordinators[index].take { $0.told(name, version: version) }, from: index)
  }

  private mutating func carryToParticipant(_ name: String) {
    guard isUp[name] == true,
      let message = toParticipant[name]?.next(using: &random, faulty: !isHealing)
    else { return }
    deliver(participants[name]?.received(message) ?? [], from: name)
  }

  private mutating func carryToCoordinator(_ name: String) {
    guard isUp[name] == true,
      let message = toCoordinator[name]?.next(using: &random, faulty: !isHealing)
    else { return }
    if case .query = message { queriesAnswered += 1 }
    let index = Self.coordinator(of: name)
    deliver(coordinators[index].take { $0.received(message, from: name) }, from: index)
  }

  private mutating func carryRequest(_ index: Int) {
    guard coordinators[index].machine != nil,
      let (id, request) = requests[index].next(using: &random, faulty: false)
    else { return }
    deliver(coordinators[index].take { $0.request(id, request) }, from: index)
  }

  private mutating func carryReply(_ index: Int) {
    guard let (id, reply) = replies[index].next(using: &random, faulty: false) else { return }
    if asked[id]?.mode == .broadcast, asked[id]?.isAnswered == true { return }
    asked[id]?.replies.append(reply)
  }

  private mutating func askSomething() {
    let composite = Self.composites.randomElement(using: &random)!
    let mode: TransactionMode =
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<5: .try
      case 5..<7: .await(.seconds(1))
      case 7..<9: .await(nil)
      // A participant knows a repeated broadcast only until it dies.
      default: settings.isWild ? .try : .broadcast
      }
    ask(composite, mode)
  }

  private mutating func fault(_ name: String, _ index: Int) {
    faultCount += 1
    switch Int.random(in: 0..<10, using: &random) {
    case 0: crashCoordinator(index)
    case 1, 2: crashParticipant(name)
    case 3, 4: disconnect(name)
    case 5: reconnectCallers(of: index)
    case 6: if coordinators[index].machine == nil { restartCoordinator(index) }
    case 7:
      if participants[name]?.machine == nil {
        deliver(participants[name]?.restart() ?? [], from: name)
      }
    default: connect(name)
    }
  }

  mutating func crashCoordinator(_ index: Int) {
    guard coordinators[index].machine != nil else { return }
    coordinators[index].crash(using: &random)
    for name in Self.classes[index] { disconnect(name) }
    // Its callers notice, and ask again when it is back.
    requests[index].drop()
    replies[index].drop()
  }

  mutating func restartCoordinator(_ index: Int) {
    deliver(coordinators[index].restart(), from: index)
    for name in Self.classes[index] { connect(name) }
    reconnectCallers(of: index)
  }

  mutating func crashParticipant(_ name: String) {
    guard participants[name]?.machine != nil else { return }
    participants[name]?.crash(using: &random)
    disconnect(name)
  }
}
