import PipeMachines
import PipeWire

/// The queue of unanswered requests. A request begins when it can lock all its participants at
/// once. Earlier requests have precedence over later requests.
struct RequestQueue: Sendable {
  /// An unanswered request.
  struct PendingRequest: Sendable {
    let id: RequestID
    let request: TransactionRequest
    /// The number of the request in the order of arrival.
    let position: UInt64
    fileprivate(set) var phase = Phase.queued
    /// The failure of the last attempt; `nil` before the first attempt.
    fileprivate(set) var failure: SynchronizedReply?
    /// Whether the caller waits only for the attempt in progress and not for further attempts.
    fileprivate(set) var isLastAttempt = false
    /// Whether the next attempt also asks participants whose refusal is already known.
    fileprivate var ignoresKnownRefusals = false
    /// The total commit count of the request's participants when the request began to wait for
    /// locks.
    fileprivate(set) var initialCommitCount: UInt64 = 0
    /// The number of later requests that have overtaken this request.
    fileprivate var overtakenCount = 0
    fileprivate(set) var hasPriority = false

    enum Phase: Sendable {
      /// The request waits for its locks.
      case queued
      case running(TransactionID)
      /// The last attempt failed because of these participants. The request waits until one of them
      /// changes its state.
      case sleeping(Set<String>)
      /// The request was not tried, because these participants are known to refuse the event.
      case deferred([BlockingParticipant])
    }

    var isQueued: Bool { if case .queued = phase { true } else { false } }

    var isRunning: Bool { if case .running = phase { true } else { false } }

    /// Whether the request waits until a participant changes its state.
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
    /// The request has locked its participants, so its transaction begins.
    case begins(PendingRequest, TransactionID)
    /// The request has failed, and waits for another attempt.
    case waits(RequestID)
    /// The request has failed for good, and was removed from the queue.
    case fails(PendingRequest, SynchronizedReply)
  }

  private var pendingRequests: [UInt64: PendingRequest] = [:]
  private var positionsByRequest: [RequestID: UInt64] = [:]
  /// The positions of the requests that require a participant, in ascending order, by participant.
  private var positionsByParticipant: [String: [UInt64]] = [:]
  private var lastPosition: UInt64 = 0
  /// The positions of the requests that wait for locks, in ascending order.
  private var queue: [UInt64] = []
  /// The number of requests that block later requests.
  private var priorityCount = 0
  /// The transaction that locks each participant, from the request's turn until the decision, by
  /// participant.
  private(set) var locksByParticipant: [String: TransactionID] = [:]
  private let overtakingLimit: Int

  /// - Parameter overtakingLimit: The number of later requests that may overtake a waiting request
  ///   for the same event. After that, the waiting request blocks later requests.
  init(overtakingLimit: Int) { self.overtakingLimit = overtakingLimit }

  /// Whether there are no locks and no requests.
  var isEmpty: Bool { locksByParticipant.isEmpty && pendingRequests.isEmpty }

  /// All requests, in the order of arrival.
  var all: [PendingRequest] { pendingRequests.values.sorted { $0.position < $1.position } }

  subscript(id: RequestID) -> PendingRequest? {
    positionsByRequest[id].flatMap { pendingRequests[$0] }
  }

  // MARK: Adding and removing requests

  /// Adds a request at the end of the queue.
  mutating func add(_ id: RequestID, _ request: TransactionRequest) {
    lastPosition += 1
    pendingRequests[lastPosition] = PendingRequest(id: id, request: request, position: lastPosition)
    positionsByRequest[id] = lastPosition
    queue.append(lastPosition)
    for participant in request.participants {
      positionsByParticipant[participant, default: []].append(lastPosition)
    }
  }

  /// Removes and returns a request, because it will be answered. Returns `nil` if there is no such
  /// request.
  mutating func remove(_ id: RequestID) -> PendingRequest? {
    guard let position = positionsByRequest.removeValue(forKey: id),
      let pending = pendingRequests.removeValue(forKey: position)
    else { return nil }
    queue.removeAll { $0 == position }
    for participant in pending.request.participants {
      positionsByParticipant[participant]?.removeAll { $0 == position }
      // Nodes are few, but there may be millions of instances.
      if InstanceName.isInstance(participant), positionsByParticipant[participant]?.isEmpty == true
      {
        positionsByParticipant[participant] = nil
      }
    }
    if pending.hasPriority { priorityCount -= 1 }
    return pending
  }

  /// Notes that the caller of a running request does not wait for further attempts.
  mutating func limitToCurrentAttempt(_ id: RequestID) { update(id) { $0.isLastAttempt = true } }

  /// Gives a waiting request another turn. This attempt also asks participants whose refusal is
  /// already known, because their states may have changed.
  /// - Returns: Whether the request was waiting.
  mutating func retry(_ id: RequestID) -> Bool {
    guard let position = positionsByRequest[id], pendingRequests[position]?.isWaiting == true else {
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

  /// Returns the reply to a request that could not get its locks: the participants that are busy.
  func busy(_ pending: PendingRequest) -> SynchronizedReply {
    let locked = pending.request.participants.filter { locksByParticipant[$0] != nil }
    // If no participant is locked, an earlier request has precedence over this request, and will
    // lock the participants.
    return .busy((locked.isEmpty ? pending.request.participants : locked).sorted())
  }

  /// Handles a failed attempt. The request then waits for another attempt, or has failed for good.
  /// Returns `nil` if there is no such request.
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

  /// Returns the participants whose change of state could make the next attempt succeed.
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
    guard let position = positionsByRequest[id], var pending = pendingRequests[position] else {
      return
    }
    let hadPriority = pending.hasPriority
    change(&pending)
    pendingRequests[position] = pending
    if pending.hasPriority != hadPriority { priorityCount += hadPriority ? -1 : 1 }
  }

  /// Returns whether any request requires the participant.
  func isRequested(_ participant: String) -> Bool {
    positionsByParticipant[participant]?.isEmpty == false
  }

  /// Returns the requested participants that are the node itself, or instances of the node.
  func participants(of node: String) -> [String] {
    positionsByParticipant.keys.filter { InstanceName.node(of: $0) == node }
  }

  // MARK: Turns of requests

  /// The maximum number of participants that are locked at a time. Unit: participants.
  private static let lockLimit = 4_096

  /// Begins each request that can lock all its participants, unless an earlier request has reserved
  /// one of these participants.
  /// - Parameter last: The last transaction that was issued. The new transactions have the next
  ///   numbers.
  mutating func takeTurns(
    after last: inout TransactionID, asking registry: ParticipantRegistry
  ) -> [Turn] {
    var turns: [Turn] = []
    var reserved: Set<String> = []
    for position in queue {
      guard locksByParticipant.count < Self.lockLimit else { break }
      guard let pending = pendingRequests[position], pending.isQueued else { continue }
      let participants = pending.request.participants
      if pending.request.mode != .broadcast,
        let missing = participants.first(where: { !registry.isConnected($0) })
      {
        // After the coordinator's start, a `try` request waits for participants that may be about
        // to join.
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
      // A blocked request reserves no participants, because the request that blocks it may require
      // the same participants.
      if mustYield(pending) { continue }
      if participants.allSatisfy({ locksByParticipant[$0] == nil && !reserved.contains($0) }) {
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
    for participant in pending.request.participants {
      locksByParticipant[participant] = transaction
    }
    pendingRequests[pending.position]?.phase = .running(transaction)
    pendingRequests[pending.position]?.ignoresKnownRefusals = false
    queue.removeAll { $0 == pending.position }
  }

  /// Releases the locks of a transaction.
  mutating func unlock(_ participants: [String], of transaction: TransactionID) {
    for participant in participants {
      if let position = locksByParticipant.index(forKey: participant),
        locksByParticipant[position].value == transaction
      {
        locksByParticipant.remove(at: position)
      }
    }
  }

  /// Returns the known refusals by a waiting request's participants: the refusals of the event in
  /// their current states.
  private func refusals(of pending: PendingRequest, _ registry: ParticipantRegistry)
    -> [BlockingParticipant]
  {
    // A request that is tried only once asks its participants even if they are known to refuse.
    guard case .await = pending.request.mode, !pending.ignoresKnownRefusals else { return [] }
    return registry.refusals(of: pending.request.decisiveBody, by: pending.request.participants)
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

  /// Moves a waiting request back to its original position in the queue.
  private mutating func requeue(_ position: UInt64) {
    pendingRequests[position]?.phase = .queued
    queue.insert(position, at: queue.firstIndex { $0 > position } ?? queue.endIndex)
  }
}

// Later requests could starve a request that needs several participants at once, because requests
// with fewer or other participants succeed sooner. So a request that was overtaken often gets
// priority: it blocks later requests for the same event that share a participant with it. The
// priority ends after a short time, since the change that the request waits for may depend on the
// blocked requests.
extension RequestQueue {
  private func mustYield(_ pending: PendingRequest) -> Bool {
    priorityCount > 0 && competitors(before: pending).contains(where: \.hasPriority)
  }

  /// Increments the overtaken count of each waiting request that the committed request `pending`
  /// has overtaken.
  /// - Returns: The ids of the requests that have just got priority.
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

  /// Ends the priority of a request that has blocked later requests long enough.
  mutating func endPriority(_ id: RequestID) {
    update(id) {
      $0.hasPriority = false
      $0.overtakenCount = 0
    }
  }

  /// Returns the earlier requests for the same event that share a participant with this request, in
  /// order.
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
