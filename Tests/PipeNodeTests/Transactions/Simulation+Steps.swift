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
    for participantIndex in participants.indices {
      restartParticipant(participantIndex)
      connect(participantIndex)
    }
    for index in coordinators.indices { reconnectRequesters(of: index) }
    settle()
  }

  /// Continues until no message is in flight, or up to a high limit.
  mutating func settle() {
    for _ in 0..<5_000 {
      if isAtRest { return }
      for participantIndex in participants.indices where !participants[participantIndex].isOpen {
        takeOwnStep(participantIndex, isOpen: true)
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
    for participantIndex in participants.indices {
      if isUp[participantIndex] {
        if !toParticipant[participantIndex].messages.isEmpty {
          moves.append(.toParticipant(participantIndex))
        }
        if !toCoordinator[participantIndex].messages.isEmpty {
          moves.append(.toCoordinator(participantIndex))
        }
      }
      if !participants[participantIndex].pending.isEmpty {
        moves.append(.participantRecord(participantIndex))
      }
      if !participants[participantIndex].running.isEmpty {
        moves.append(.transition(participantIndex))
      }
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
    case .toParticipant(let participantIndex): carryToParticipant(participantIndex)
    case .toCoordinator(let participantIndex): carryToCoordinator(participantIndex)
    case .participantRecord(let participantIndex):
      deliver(participants[participantIndex].record(), from: participantIndex)
    case .transition(let participantIndex):
      deliver(participants[participantIndex].endTransition(), from: participantIndex)
    case .request(let index): carryRequest(index)
    case .reply(let index): carryReply(index)
    case .coordinatorRecord(let index): deliver(coordinators[index].record(), from: index)
    }
  }

  private mutating func fireTimer() {
    let index = Int.random(in: coordinators.indices, using: &random)
    let participantIndex = Int.random(in: participants.indices, using: &random)
    if participants[participantIndex].queryTimerRuns {
      deliver(participants[participantIndex].queryTimerFired(), from: participantIndex)
      if !isUp[participantIndex] {
        deliver(participants[participantIndex].disconnected(), from: participantIndex)
      }
    }
    let timed = participants.indices.filter { participants[$0].limited != nil }
    if let timedOut = timed.randomElement(using: &random) {
      deliver(participants[timedOut].passLimit(), from: timedOut)
    }
    if let timer = coordinators[index].timers.indices.randomElement(using: &random) {
      deliver(coordinators[index].fire(timer), from: index)
    }
  }

  /// Takes one random step.
  mutating func step() {
    let participantIndex = Int.random(in: participants.indices, using: &random)
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<84: if let move = moves.randomElement(using: &random) { make(move) }
    case 84..<86: fireTimer()
    case 86..<89:
      takeOwnStep(participantIndex, isOpen: Int.random(in: 0..<4, using: &random) > 0)
    case 89..<94: makeRandomRequest()
    default:
      if settings.hasFaults {
        fault(participantIndex, Int.random(in: coordinators.indices, using: &random))
      }
    }
  }

  /// Opens or closes a participant. Its feed reports the step, or the report is lost.
  private mutating func takeOwnStep(_ participantIndex: Int, isOpen: Bool) {
    let before = participants[participantIndex].version
    deliver(participants[participantIndex].step(isOpen: isOpen), from: participantIndex)
    let version = participants[participantIndex].version
    guard version > before, Bool.random(using: &random) else { return }
    let index = Self.classOf[participantIndex]
    deliver(
      coordinators[index].take { $0.reported(Self.names[participantIndex], version: version) },
      from: index)
  }

  private mutating func carryToParticipant(_ participantIndex: Int) {
    guard isUp[participantIndex],
      let message = toParticipant[participantIndex].next(using: &random, faulty: !isHealing)
    else { return }
    deliver(participants[participantIndex].received(message), from: participantIndex)
  }

  private mutating func carryToCoordinator(_ participantIndex: Int) {
    guard isUp[participantIndex],
      let message = toCoordinator[participantIndex].next(using: &random, faulty: !isHealing)
    else { return }
    if case .query = message { queriesAnswered += 1 }
    let index = Self.classOf[participantIndex]
    deliver(
      coordinators[index].take { $0.received(message, from: Self.names[participantIndex]) },
      from: index)
  }

  private mutating func carryRequest(_ index: Int) {
    guard coordinators[index].machine != nil,
      let (id, request) = requests[index].next(using: &random, faulty: false)
    else { return }
    deliver(coordinators[index].take { $0.request(id, request) }, from: index)
  }

  private mutating func carryReply(_ index: Int) {
    guard let (id, reply) = replies[index].next(using: &random, faulty: false) else { return }
    if simulatedRequests[id]?.mode == .broadcast, simulatedRequests[id]?.isAnswered == true {
      return
    }
    simulatedRequests[id]?.replies.append(reply)
  }

  private mutating func makeRandomRequest() {
    let composite = Self.composites.randomElement(using: &random)!
    let mode: TransactionMode =
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<5: .try
      case 5..<7: .await(.seconds(1))
      case 7..<9: .await(nil)
      // A participant recognizes a repeated broadcast only until it crashes.
      default: settings.isUnreliable ? .try : .broadcast
      }
    ask(composite, mode)
  }

  private mutating func fault(_ participantIndex: Int, _ index: Int) {
    faultCount += 1
    switch Int.random(in: 0..<10, using: &random) {
    case 0: crashCoordinator(index)
    case 1, 2: crashParticipant(participantIndex)
    case 3, 4: disconnect(participantIndex)
    case 5: reconnectRequesters(of: index)
    case 6: if coordinators[index].machine == nil { restartCoordinator(index) }
    case 7: restartParticipant(participantIndex)
    default: connect(participantIndex)
    }
  }

  mutating func crashCoordinator(_ index: Int) {
    guard coordinators[index].machine != nil else { return }
    coordinators[index].crash(using: &random)
    for participantIndex in Self.participantIndices(of: index) { disconnect(participantIndex) }
    // The callers notice the crash and repeat their requests when the coordinator is back.
    requests[index].drop()
    replies[index].drop()
  }

  mutating func restartCoordinator(_ index: Int) {
    deliver(coordinators[index].restart(), from: index)
    for participantIndex in Self.participantIndices(of: index) { connect(participantIndex) }
    reconnectRequesters(of: index)
  }

  mutating func crashParticipant(_ participantIndex: Int) {
    guard participants[participantIndex].machine != nil else { return }
    participants[participantIndex].crash(using: &random)
    disconnect(participantIndex)
  }

  private mutating func restartParticipant(_ participantIndex: Int) {
    guard participants[participantIndex].machine == nil else { return }
    deliver(participants[participantIndex].restart(), from: participantIndex)
  }

  private static func participantIndices(of index: Int) -> [Int] {
    names.indices.filter { classOf[$0] == index }
  }
}
