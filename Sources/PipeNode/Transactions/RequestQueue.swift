import PipeMachines
import PipeWire

/// The unanswered requests, and the choice of requests that may begin. A request begins when it can
/// lock all its participants at once. Earlier requests come first.
struct RequestQueue: Sendable {
  /// An unanswered request.
  struct PendingRequest: Sendable {
    let id: RequestID
    let request: TransactionRequest
    /// The number of the request in the order of arrival.
    let position: UInt64
    fileprivate(set) var phase = Phase.queued
    /// The failure of the last attempt.
    fileprivate(set) var failure: SynchronizedReply?
    /// Whether the caller waits only for the attempt in progress.
    fileprivate(set) var isLastAttempt = false
    /// Whether the next attempt also asks participants that are known to refuse.
    fileprivate var ignoresKnownRefusals = false
    /// The number of its participants' commits when the request began to wait for their locks.
    fileprivate(set) var initialCommitCount: UInt64 = 0
    /// The number of later requests that have got the event.
    fileprivate var overtakenCount = 0
    fileprivate(set) var hasPriority = false

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
      case .sleeping(let blockers): blockers.contains(participant)
      case .deferred(let refusals): refusals.contains { $0.participant == participant }
      case .queued, .running: false
      }
    }
  }

  /// The outcome of a request's turn.
  enum Turn {
    /// The request has the locks of its participants.
    case begins(PendingRequest, TransactionID)
    /// The request waits for another chance.
    case waits(RequestID)
    /// The request has failed, and was removed.
    case fails(PendingRequest, SynchronizedReply)
  }

  private var pendingRequests: [UInt64: PendingRequest] = [:]
  private var positions: [RequestID: UInt64] = [:]
  /// The numbers of the requests that need a participant, in order.
  private var positionsByParticipant: [String: [UInt64]] = [:]
  private var lastPosition: UInt64 = 0
  /// The numbers of the requests that wait for locks, in the order of arrival.
  private var queue: [UInt64] = []
  /// The number of requests that keep others back.
  private var priorityCount = 0
  /// The transaction that locks each participant, from the request's turn until the decision.
  private(set) var locks: [String: TransactionID] = [:]
  private let overtakingLimit: Int

  /// - Parameter overtakingLimit: How often others may get the event that a request waits for,
  ///   before the request keeps them back.
  init(overtakingLimit: Int) { self.overtakingLimit = overtakingLimit }

  /// Whether nothing is locked, and no request waits.
  var isEmpty: Bool { locks.isEmpty && pendingRequests.isEmpty }

  /// All requests, in the order of arrival.
  var all: [PendingRequest] { pendingRequests.values.sorted { $0.position < $1.position } }

  subscript(id: RequestID) -> PendingRequest? { positions[id].flatMap { pendingRequests[$0] } }

  // MARK: Requests

  /// Adds a request as the last one.
  mutating func add(_ id: RequestID, _ request: TransactionRequest) {
    lastPosition += 1
    pendingRequests[lastPosition] = PendingRequest(id: id, request: request, position: lastPosition)
    positions[id] = lastPosition
    queue.append(lastPosition)
    for participant in request.participants {
      positionsByParticipant[participant, default: []].append(lastPosition)
    }
  }

  /// Removes and returns a request that will be answered.
  mutating func remove(_ id: RequestID) -> PendingRequest? {
    guard let position = positions.removeValue(forKey: id),
      let pending = pendingRequests.removeValue(forKey: position)
    else { return nil }
    queue.removeAll { $0 == position }
    for participant in pending.request.participants {
      positionsByParticipant[participant]?.removeAll { $0 == position }
    }
    if pending.hasPriority { priorityCount -= 1 }
    return pending
  }

  /// Notes that the caller of a running request waits for no further attempt.
  mutating func limitToCurrentAttempt(_ id: RequestID) { update(id) { $0.isLastAttempt = true } }

  /// Gives a waiting request another turn, also with participants that are known to refuse: that
  /// knowledge may be outdated.
  /// - Returns: `false` if the request is not waiting.
  mutating func retry(_ id: RequestID) -> Bool {
    guard let position = positions[id], pendingRequests[position]?.isWaiting == true else {
      return false
    }
    pendingRequests[position]?.ignoresKnownRefusals = true
    requeue(position)
    return true
  }

  /// Notes that a queued request begins to wait for its locks.
  mutating func startWaitingForLocks(_ id: RequestID, of registry: ParticipantRegistry) {
    guard let pending = self[id] else { return }
    pendingRequests[pending.position]?.initialCommitCount = registry.commitCount(
      of: pending.request.participants)
  }

  /// Returns the reply to a request whose participants are locked.
  func busy(_ pending: PendingRequest) -> SynchronizedReply {
    let locked = pending.request.participants.filter { locks[$0] != nil }
    // Without locks, another request keeps this one back, and is about to lock the participants.
    return .busy((locked.isEmpty ? pending.request.participants : locked).sorted())
  }

  /// Handles a failed attempt.
  mutating func fail(_ id: RequestID, _ reply: SynchronizedReply) -> Turn? {
    guard let pending = self[id] else { return nil }
    guard case .await = pending.request.mode, !pending.isLastAttempt else {
      return remove(id).map { .fails($0, reply) }
    }
    pendingRequests[pending.position]?.failure = reply
    wait(pending, as: .sleeping(Self.blockers(reply, of: pending.request)))
    return .waits(id)
  }

  private mutating func wait(_ pending: PendingRequest, as phase: PendingRequest.Phase) {
    pendingRequests[pending.position]?.phase = phase
    queue.removeAll { $0 == pending.position }
  }

  /// Returns the participants whose change may let the event be taken.
  private static func blockers(
    _ reply: SynchronizedReply, of request: TransactionRequest
  ) -> Set<String> {
    switch reply {
    case .refused(let refusals): Set(refusals.map(\.participant))
    case .busy(let participants): Set(participants)
    case .unavailable(let participant): [participant]
    case .committed, .unknown: Set(request.participants)
    }
  }

  private mutating func update(_ id: RequestID, _ change: (inout PendingRequest) -> Void) {
    guard let position = positions[id], var pending = pendingRequests[position] else { return }
    let hadPriority = pending.hasPriority
    change(&pending)
    pendingRequests[position] = pending
    if pending.hasPriority != hadPriority { priorityCount += hadPriority ? -1 : 1 }
  }

  // MARK: Turns

  /// Locks the participants of every request that can lock all of them and takes none from an
  /// earlier request.
  /// - Parameter last: The last transaction that was issued; the new ones follow it.
  mutating func takeTurns(
    after last: inout TransactionID, asking registry: ParticipantRegistry
  ) -> [Turn] {
    var turns: [Turn] = []
    var reserved: Set<String> = []
    for position in queue {
      guard let pending = pendingRequests[position], pending.isQueued else { continue }
      let participants = pending.request.participants
      if pending.request.mode != .broadcast,
        let missing = participants.first(where: { !registry.connected.contains($0) })
      {
        // After a start, a `try` request waits for participants that are about to join.
        if pending.request.mode == .try, registry.mayJoin(missing) { continue }
        if let turn = fail(pending.id, .unavailable(missing)) { turns.append(turn) }
        continue
      }
      let refusals = refusals(of: pending, registry)
      if !refusals.isEmpty {
        wait(pending, as: .deferred(refusals))
        turns.append(.waits(pending.id))
        continue
      }
      // Requests that are kept back reserve nothing: the request that keeps them back may need the
      // participants.
      if mustYield(pending) { continue }
      if participants.allSatisfy({ locks[$0] == nil && !reserved.contains($0) }) {
        last.sequence += 1
        begin(pending, as: last)
        turns.append(.begins(pending, last))
      } else {
        reserved.formUnion(participants)
      }
    }
    return turns
  }

  private mutating func begin(_ pending: PendingRequest, as transaction: TransactionID) {
    for participant in pending.request.participants { locks[participant] = transaction }
    pendingRequests[pending.position]?.phase = .running(transaction)
    pendingRequests[pending.position]?.ignoresKnownRefusals = false
    queue.removeAll { $0 == pending.position }
  }

  /// Releases the locks of a transaction.
  mutating func unlock(_ participants: [String], of transaction: TransactionID) {
    for participant in participants {
      if let position = locks.index(forKey: participant), locks[position].value == transaction {
        locks.remove(at: position)
      }
    }
  }

  /// Returns the known refusals of a waiting request's event.
  private func refusals(of pending: PendingRequest, _ registry: ParticipantRegistry)
    -> [BlockingParticipant]
  {
    // A request that is tried once gets the present answers of its participants.
    guard case .await = pending.request.mode, !pending.ignoresKnownRefusals else { return [] }
    return registry.refusals(of: pending.request.question, by: pending.request.participants)
  }

  /// Gives another turn to the requests that wait for one of these participants to change, unless a
  /// participant is still known to refuse.
  /// - Returns: The requests that have another turn.
  mutating func wake(
    _ participants: some Sequence<String>, asking registry: ParticipantRegistry
  ) -> [RequestID] {
    var woken: Set<UInt64> = []
    for participant in participants {
      for position in positionsByParticipant[participant] ?? [] {
        guard let pending = pendingRequests[position], pending.waits(for: participant) else {
          continue
        }
        let refusals = refusals(of: pending, registry)
        if refusals.isEmpty {
          woken.insert(position)
        } else {
          pendingRequests[position]?.phase = .deferred(refusals)
        }
      }
    }
    return woken.sorted().compactMap { position in
      requeue(position)
      return pendingRequests[position]?.id
    }
  }

  /// Puts a waiting request back into the queue, at its original position.
  private mutating func requeue(_ position: UInt64) {
    pendingRequests[position]?.phase = .queued
    queue.insert(position, at: queue.firstIndex { $0 > position } ?? queue.endIndex)
  }
}

// An event that needs several participants at once could be starved by events that need fewer, or
// others. So a request that has often been overtaken keeps back later requests of the same event at
// a shared participant. It does so for a limited time, since the change that it waits for may
// depend on those requests.
extension RequestQueue {
  private func mustYield(_ pending: PendingRequest) -> Bool {
    priorityCount > 0 && competitors(before: pending).contains(where: \.hasPriority)
  }

  /// Counts the requests that a committed request has overtaken.
  /// - Returns: The requests that begin to keep others back.
  mutating func countOvertaken(by pending: PendingRequest) -> [RequestID] {
    competitors(before: pending).filter(\.isWaiting).compactMap { other in
      let getsPriority = other.hasPriority || other.overtakenCount + 1 >= overtakingLimit
      update(other.id) {
        $0.overtakenCount += 1
        $0.hasPriority = getsPriority
      }
      return getsPriority && !other.hasPriority ? other.id : nil
    }
  }

  /// Notes that a request has kept others back long enough.
  mutating func endPriority(_ id: RequestID) {
    update(id) {
      $0.hasPriority = false
      $0.overtakenCount = 0
    }
  }

  /// Returns the earlier requests of the same event that share a participant with this one, in
  /// their order.
  private func competitors(before pending: PendingRequest) -> [PendingRequest] {
    var found: Set<UInt64> = []
    for participant in pending.request.participants {
      for position in positionsByParticipant[participant] ?? [] where position < pending.position {
        found.insert(position)
      }
    }
    return found.sorted().compactMap { pendingRequests[$0] }.filter {
      $0.request.event == pending.request.event
    }
  }
}
