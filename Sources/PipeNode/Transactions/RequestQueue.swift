import PipeMachines
import PipeWire

/// The unanswered requests, and the choice of requests that may begin. A request begins when it can
/// lock all its participants at once. Earlier requests come first.
struct RequestQueue: Sendable {
  /// An unanswered request.
  struct Call: Sendable {
    let id: RequestID
    let request: TransactionRequest
    /// The number of the request in the order of arrival.
    let place: UInt64
    fileprivate(set) var phase = Phase.queued
    /// The failure of the last attempt.
    fileprivate(set) var failure: SynchronizedReply?
    /// Whether the caller waits only for the attempt in progress.
    fileprivate(set) var isOverdue = false
    /// Whether the next attempt also asks participants that are known to refuse.
    fileprivate var isInsistent = false
    /// The number of its participants' commits when the request began to wait for their locks.
    fileprivate(set) var commitsSeen: UInt64 = 0
    /// The number of later requests that have got the event.
    fileprivate var overtaken = 0
    fileprivate(set) var keepsOthersBack = false

    enum Phase: Sendable {
      /// Waits for locks.
      case queued
      case running(TransactionID)
      /// Waits for a change of one of these participants, which have refused.
      case sleeping(Set<String>)
      /// Was not tried, since these participants are known to refuse.
      case deferred([BlockingParticipant])
    }

    var isQueued: Bool { if case .queued = phase { true } else { false } }

    var isRunning: Bool { if case .running = phase { true } else { false } }

    /// Whether the request waits for a change of a participant.
    var isWaiting: Bool {
      switch phase {
      case .sleeping, .deferred: true
      case .queued, .running: false
      }
    }

    fileprivate func waits(for participant: String) -> Bool {
      switch phase {
      case .sleeping(let obstacles): obstacles.contains(participant)
      case .deferred(let refusals): refusals.contains { $0.participant == participant }
      case .queued, .running: false
      }
    }
  }

  /// The outcome of a request's turn.
  enum Turn {
    /// The request has the locks of its participants.
    case begins(Call, TransactionID)
    /// The request waits for another chance.
    case waits(RequestID)
    /// The request has failed, and was removed.
    case fails(Call, SynchronizedReply)
  }

  private var calls: [UInt64: Call] = [:]
  private var places: [RequestID: UInt64] = [:]
  /// The numbers of the requests that need a participant, in order.
  private var placesByParticipant: [String: [UInt64]] = [:]
  private var lastPlace: UInt64 = 0
  /// The numbers of the requests that wait for locks, in the order of arrival.
  private var queue: [UInt64] = []
  /// The number of requests that keep others back.
  private var keepers = 0
  /// The transaction that locks each participant, from the request's turn until the decision.
  private(set) var locks: [String: TransactionID] = [:]
  private let overtakingLimit: Int

  /// - Parameter overtakingLimit: How often others may get the event that a request waits for,
  ///   before the request keeps them back.
  init(overtakingLimit: Int) { self.overtakingLimit = overtakingLimit }

  /// Whether nothing is locked, and no request waits.
  var isEmpty: Bool { locks.isEmpty && calls.isEmpty }

  /// All requests, in the order of arrival.
  var all: [Call] { calls.values.sorted { $0.place < $1.place } }

  subscript(id: RequestID) -> Call? { places[id].flatMap { calls[$0] } }

  // MARK: Requests

  /// Adds a request as the last one.
  mutating func add(_ id: RequestID, _ request: TransactionRequest) {
    lastPlace += 1
    calls[lastPlace] = Call(id: id, request: request, place: lastPlace)
    places[id] = lastPlace
    queue.append(lastPlace)
    for participant in request.participants {
      placesByParticipant[participant, default: []].append(lastPlace)
    }
  }

  /// Removes and returns a request that will be answered.
  mutating func remove(_ id: RequestID) -> Call? {
    guard let place = places.removeValue(forKey: id), let call = calls.removeValue(forKey: place)
    else { return nil }
    queue.removeAll { $0 == place }
    for participant in call.request.participants {
      placesByParticipant[participant]?.removeAll { $0 == place }
    }
    if call.keepsOthersBack { keepers -= 1 }
    return call
  }

  /// Notes that the caller of a running request waits for no further attempt.
  mutating func setOverdue(_ id: RequestID) { update(id) { $0.isOverdue = true } }

  /// Gives a waiting request another turn, also with participants that are known to refuse: that
  /// knowledge may be outdated.
  /// - Returns: `false` if the request is not waiting.
  mutating func retry(_ id: RequestID) -> Bool {
    guard let place = places[id], calls[place]?.isWaiting == true else { return false }
    calls[place]?.isInsistent = true
    queueAgain(place)
    return true
  }

  /// Notes that a queued request begins to wait for its locks.
  mutating func startWaitingForLocks(_ id: RequestID, of known: ParticipantRegistry) {
    guard let call = self[id] else { return }
    calls[call.place]?.commitsSeen = known.commitCount(of: call.request.participants)
  }

  /// Returns the reply to a request whose participants are locked.
  func busy(_ call: Call) -> SynchronizedReply {
    let locked = call.request.participants.filter { locks[$0] != nil }
    // Without locks, another request keeps this one back, and is about to lock the participants.
    return .busy((locked.isEmpty ? call.request.participants : locked).sorted())
  }

  /// Handles a failed attempt.
  mutating func fail(_ id: RequestID, _ reply: SynchronizedReply) -> Turn? {
    guard let call = self[id] else { return nil }
    guard case .await = call.request.mode, !call.isOverdue else {
      return remove(id).map { .fails($0, reply) }
    }
    calls[call.place]?.failure = reply
    wait(call, as: .sleeping(Self.obstacles(reply, of: call.request)))
    return .waits(id)
  }

  private mutating func wait(_ call: Call, as phase: Call.Phase) {
    calls[call.place]?.phase = phase
    queue.removeAll { $0 == call.place }
  }

  /// Returns the participants whose change may let the event be taken.
  private static func obstacles(
    _ reply: SynchronizedReply, of request: TransactionRequest
  ) -> Set<String> {
    switch reply {
    case .refused(let refusals): Set(refusals.map(\.participant))
    case .busy(let participants): Set(participants)
    case .unavailable(let participant): [participant]
    case .committed, .unknown: Set(request.participants)
    }
  }

  private mutating func update(_ id: RequestID, _ change: (inout Call) -> Void) {
    guard let place = places[id], var call = calls[place] else { return }
    let keptBefore = call.keepsOthersBack
    change(&call)
    calls[place] = call
    if call.keepsOthersBack != keptBefore { keepers += keptBefore ? -1 : 1 }
  }

  // MARK: Turns

  /// Locks the participants of every request that can lock all of them and takes none from an
  /// earlier request.
  /// - Parameter last: The last transaction that was issued; the new ones follow it.
  mutating func takeTurns(
    after last: inout TransactionID, asking known: ParticipantRegistry
  ) -> [Turn] {
    var turns: [Turn] = []
    var reserved: Set<String> = []
    for place in queue {
      guard let call = calls[place], call.isQueued else { continue }
      let participants = call.request.participants
      if call.request.mode != .broadcast,
        let missing = participants.first(where: { !known.connected.contains($0) })
      {
        // After a start, a `try` request waits for participants that are about to join.
        if call.request.mode == .try, known.mayJoin(missing) { continue }
        if let turn = fail(call.id, .unavailable(missing)) { turns.append(turn) }
        continue
      }
      let refusals = refusals(of: call, known)
      if !refusals.isEmpty {
        wait(call, as: .deferred(refusals))
        turns.append(.waits(call.id))
        continue
      }
      // Requests that are kept back reserve nothing: the request that keeps them back may need the
      // participants.
      if isKeptBack(call) { continue }
      if participants.allSatisfy({ locks[$0] == nil && !reserved.contains($0) }) {
        last.sequence += 1
        begin(call, as: last)
        turns.append(.begins(call, last))
      } else {
        reserved.formUnion(participants)
      }
    }
    return turns
  }

  private mutating func begin(_ call: Call, as transaction: TransactionID) {
    for participant in call.request.participants { locks[participant] = transaction }
    calls[call.place]?.phase = .running(transaction)
    calls[call.place]?.isInsistent = false
    queue.removeAll { $0 == call.place }
  }

  /// Releases the locks of a transaction.
  mutating func unlock(_ participants: [String], of transaction: TransactionID) {
    for participant in participants {
      if let place = locks.index(forKey: participant), locks[place].value == transaction {
        locks.remove(at: place)
      }
    }
  }

  /// Returns the known refusals of a waiting request's event.
  private func refusals(of call: Call, _ known: ParticipantRegistry) -> [BlockingParticipant] {
    // A request that is tried once gets the present answers of its participants.
    guard case .await = call.request.mode, !call.isInsistent else { return [] }
    return known.refusals(of: call.request.question, by: call.request.participants)
  }

  /// Gives another turn to the requests that wait for one of these participants to change, unless a
  /// participant is still known to refuse.
  /// - Returns: The requests that have another turn.
  mutating func wake(
    _ participants: some Sequence<String>, asking known: ParticipantRegistry
  ) -> [RequestID] {
    var woken: Set<UInt64> = []
    for participant in participants {
      for place in placesByParticipant[participant] ?? [] {
        guard let call = calls[place], call.waits(for: participant) else { continue }
        let refusals = refusals(of: call, known)
        if refusals.isEmpty {
          woken.insert(place)
        } else {
          calls[place]?.phase = .deferred(refusals)
        }
      }
    }
    return woken.sorted().compactMap { place in
      queueAgain(place)
      return calls[place]?.id
    }
  }

  /// Puts a waiting request back into the queue, at its original position.
  private mutating func queueAgain(_ place: UInt64) {
    calls[place]?.phase = .queued
    queue.insert(place, at: queue.firstIndex { $0 > place } ?? queue.endIndex)
  }
}

// An event that needs several participants at once could be starved by events that need fewer, or
// others. So a request that has often been overtaken keeps back later requests of the same event at
// a shared participant. It does so for a limited time, since the change that it waits for may
// depend on those requests.
extension RequestQueue {
  private func isKeptBack(_ call: Call) -> Bool {
    keepers > 0 && competitors(before: call).contains(where: \.keepsOthersBack)
  }

  /// Counts the requests that a committed request has overtaken.
  /// - Returns: The requests that begin to keep others back.
  mutating func countOvertaken(by call: Call) -> [RequestID] {
    competitors(before: call).filter(\.isWaiting).compactMap { other in
      let isKeeper = other.keepsOthersBack || other.overtaken + 1 >= overtakingLimit
      update(other.id) {
        $0.overtaken += 1
        $0.keepsOthersBack = isKeeper
      }
      return isKeeper && !other.keepsOthersBack ? other.id : nil
    }
  }

  /// Notes that a request has kept others back long enough.
  mutating func stopKeepingBack(_ id: RequestID) {
    update(id) {
      $0.keepsOthersBack = false
      $0.overtaken = 0
    }
  }

  /// Returns the earlier requests of the same event that share a participant with this one, in
  /// their order.
  private func competitors(before call: Call) -> [Call] {
    var found: Set<UInt64> = []
    for participant in call.request.participants {
      for place in placesByParticipant[participant] ?? [] where place < call.place {
        found.insert(place)
      }
    }
    return found.sorted().compactMap { calls[$0] }.filter {
      $0.request.event == call.request.event
    }
  }
}
