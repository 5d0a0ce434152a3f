import PipeNode
import PipeWire

extension Simulation {
  /// Runs with faults, and then without until no message is in flight.
  mutating func run() {
    for _ in 0..<settings.steps { step() }
    heal()
  }

  /// Restarts everything and stops all faults, so that waiting requests complete.
  mutating func heal() {
    isHealing = true
    for index in coordinators.indices where coordinators[index].machine == nil {
      deliver(coordinators[index].restart(), from: index)
    }
    for place in participants.indices {
      restartParticipant(place)
      connect(place)
    }
    for index in coordinators.indices { reconnectCallers(of: index) }
    settle()
  }

  /// Continues until no message is in flight, or up to a high limit.
  mutating func settle() {
    for _ in 0..<5_000 {
      if isAtRest { return }
      for place in participants.indices where !participants[place].isOpen {
        takeOwnStep(place, isOpen: true)
      }
      // Without losses, timers are slow compared to messages.
      if let move = moves.randomElement(using: &random) { make(move) } else { fireTimer() }
    }
  }

  var isAtRest: Bool {
    coordinators.allSatisfy { $0.machine?.isIdle == true && $0.pending.isEmpty }
      && participants.allSatisfy {
        $0.machine?.acceptsInputs == true && $0.pending.isEmpty && $0.running.isEmpty
      }
      && toParticipant.allSatisfy(\.messages.isEmpty)
      && toCoordinator.allSatisfy(\.messages.isEmpty)
      && requests.allSatisfy(\.messages.isEmpty) && replies.allSatisfy(\.messages.isEmpty)
  }

  /// An event that can happen by itself.
  private enum Move {
    case toParticipant(Int), toCoordinator(Int), participantRecord(Int), transition(Int)
    case request(Int), reply(Int), coordinatorRecord(Int)
  }

  private var moves: [Move] {
    var moves: [Move] = []
    for place in participants.indices {
      if isUp[place] {
        if !toParticipant[place].messages.isEmpty { moves.append(.toParticipant(place)) }
        if !toCoordinator[place].messages.isEmpty { moves.append(.toCoordinator(place)) }
      }
      if !participants[place].pending.isEmpty { moves.append(.participantRecord(place)) }
      if !participants[place].running.isEmpty { moves.append(.transition(place)) }
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
    case .toParticipant(let place): carryToParticipant(place)
    case .toCoordinator(let place): carryToCoordinator(place)
    case .participantRecord(let place): deliver(participants[place].record(), from: place)
    case .transition(let place): deliver(participants[place].endTransition(), from: place)
    case .request(let index): carryRequest(index)
    case .reply(let index): carryReply(index)
    case .coordinatorRecord(let index): deliver(coordinators[index].record(), from: index)
    }
  }

  private mutating func fireTimer() {
    let index = Int.random(in: coordinators.indices, using: &random)
    let place = Int.random(in: participants.indices, using: &random)
    if participants[place].queryTimerRuns {
      deliver(participants[place].queryTimerFired(), from: place)
      if !isUp[place] { deliver(participants[place].disconnected(), from: place) }
    }
    let timed = participants.indices.filter { participants[$0].limited != nil }
    if let late = timed.randomElement(using: &random) {
      deliver(participants[late].passLimit(), from: late)
    }
    if let timer = coordinators[index].timers.indices.randomElement(using: &random) {
      deliver(coordinators[index].fire(timer), from: index)
    }
  }

  /// Takes one random step.
  mutating func step() {
    let place = Int.random(in: participants.indices, using: &random)
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<84: if let move = moves.randomElement(using: &random) { make(move) }
    case 84..<86: fireTimer()
    case 86..<89:
      takeOwnStep(place, isOpen: Int.random(in: 0..<4, using: &random) > 0)
    case 89..<94: askSomething()
    default:
      if settings.hasFaults {
        fault(place, Int.random(in: coordinators.indices, using: &random))
      }
    }
  }

  /// Opens or closes a participant. Its feed reports the step, or the report is lost.
  private mutating func takeOwnStep(_ place: Int, isOpen: Bool) {
    let before = participants[place].version
    deliver(participants[place].step(isOpen: isOpen), from: place)
    let version = participants[place].version
    guard version > before, Bool.random(using: &random) else { return }
    let index = Self.classOf[place]
    deliver(
      coordinators[index].take { $0.reported(Self.names[place], version: version) }, from: index)
  }

  private mutating func carryToParticipant(_ place: Int) {
    guard isUp[place],
      let message = toParticipant[place].next(using: &random, faulty: !isHealing)
    else { return }
    deliver(participants[place].received(message), from: place)
  }

  private mutating func carryToCoordinator(_ place: Int) {
    guard isUp[place],
      let message = toCoordinator[place].next(using: &random, faulty: !isHealing)
    else { return }
    if case .query = message { queriesAnswered += 1 }
    let index = Self.classOf[place]
    deliver(
      coordinators[index].take { $0.received(message, from: Self.names[place]) }, from: index)
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
      // A participant recognizes a repeated broadcast only until it crashes.
      default: settings.isWild ? .try : .broadcast
      }
    ask(composite, mode)
  }

  private mutating func fault(_ place: Int, _ index: Int) {
    faultCount += 1
    switch Int.random(in: 0..<10, using: &random) {
    case 0: crashCoordinator(index)
    case 1, 2: crashParticipant(place)
    case 3, 4: disconnect(place)
    case 5: reconnectCallers(of: index)
    case 6: if coordinators[index].machine == nil { restartCoordinator(index) }
    case 7: restartParticipant(place)
    default: connect(place)
    }
  }

  mutating func crashCoordinator(_ index: Int) {
    guard coordinators[index].machine != nil else { return }
    coordinators[index].crash(using: &random)
    for place in Self.places(of: index) { disconnect(place) }
    // The callers notice the crash and repeat their requests when the coordinator is back.
    requests[index].drop()
    replies[index].drop()
  }

  mutating func restartCoordinator(_ index: Int) {
    deliver(coordinators[index].restart(), from: index)
    for place in Self.places(of: index) { connect(place) }
    reconnectCallers(of: index)
  }

  mutating func crashParticipant(_ place: Int) {
    guard participants[place].machine != nil else { return }
    participants[place].crash(using: &random)
    disconnect(place)
  }

  private mutating func restartParticipant(_ place: Int) {
    guard participants[place].machine == nil else { return }
    deliver(participants[place].restart(), from: place)
  }

  private static func places(of index: Int) -> [Int] {
    names.indices.filter { classOf[$0] == index }
  }
}
