import PipeMachines
import PipeWire

/// The requests that are not answered, and which of them may begin: one that can have the locks of all
/// its participants at once, first come first served.
struct RequestQueue: Sendable {
  /// A request that is not answered.
  struct Call: Sendable {
    let id: RequestID
    let request: TransactionRequest
    /// Its place among all that came.
    let place: UInt64
    fileprivate(set) var phase = Phase.queued
    /// Why it has failed so far.
    fileprivate(set) var failure: SynchronizedReply?
    /// The caller waits no longer than for what is under way.
    fileprivate(set) var isOverdue = false
    /// Its next attempt asks also those who are known to refuse.
    fileprivate var isInsistent = false
    /// How many commits its participants had had part in when it began to wait for their locks.
    fileprivate(set) var commitsSeen: UInt64 = 0
    /// How often a later request has got the event.
    fileprivate var overtaken = 0
    fileprivate(set) var keepsOthersBack = false

    enum Phase: Sendable {
      /// Waits for locks.
      case queued
      case running(TransactionID)
      /// Waits until one of these has changed, who have refused.
      case sleeping(Set<String>)
      /// Was not tried, since these are known to refuse.
      case deferred([Withholding])
    }

    var isQueued: Bool { if case .queued = phase { true } else { false } }

    var isRunning: Bool { if case .running = phase { true } else { false } }

    /// Whether it waits for a change of somebody.
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

  /// What becomes of a request that has its turn.
  enum Turn {
    /// It has the locks of its participants.
    case begins(Call, TransactionID)
    /// It waits for another chance.
    case waits(RequestID)
    /// It has failed, and is not here any more.
    case fails(Call, SynchronizedReply)
  }

  private var calls: [UInt64: Call] = [:]
  private var places: [RequestID: UInt64] = [:]
  /// The places of those that need a participant, in order.
  private var placesByParticipant: [String: [UInt64]] = [:]
  private var lastPlace: UInt64 = 0
  /// Those that wait for locks, by their places, in the order in which they came.
  private var queue: [UInt64] = []
  /// How many keep others back.
  private var keepers = 0
  /// Which transaction each participant is locked by, from the request's turn until it is decided.
  private(set) var locks: [String: TransactionID] = [:]
  private let overtakingLimit: Int

  /// - Parameter overtakingLimit: How often others may get the event that a request waits for, before it
  ///   keeps them back.
  init(overtakingLimit: Int) { self.overtakingLimit = overtakingLimit }

  /// Whether nothing is locked, and no request waits.
  var isEmpty: Bool { locks.isEmpty && calls.isEmpty }

  /// All, in the order in which they came.
  var all: [Call] { calls.values.sorted { $0.place < $1.place } }

  subscript(id: RequestID) -> Call? { places[id].flatMap { calls[$0] } }

  // MARK: Requests

  /// Takes a request in, as the last one.
  mutating func add(_ id: RequestID, _ request: TransactionRequest) {
    lastPlace += 1
    calls[lastPlace] = Call(id: id, request: request, place: lastPlace)
    places[id] = lastPlace
    queue.append(lastPlace)
    for participant in request.participants {
      placesByParticipant[participant, default: []].append(lastPlace)
    }
  }

  /// Takes out a request that is to be answered.
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

  /// The caller of a request that is under way waits for no other attempt.
  mutating func setOverdue(_ id: RequestID) { update(id) { $0.isOverdue = true } }

  /// A request that waits has its turn again, also with those who are known to refuse: what was known
  /// of them may be old.
  /// - Returns: `false` where it does not wait.
  mutating func retry(_ id: RequestID) -> Bool {
    guard let place = places[id], calls[place]?.isWaiting == true else { return false }
    calls[place]?.isInsistent = true
    queueAgain(place)
    return true
  }

  /// A request that is queued begins to wait for its locks.
  mutating func startWaitingForLocks(_ id: RequestID, of known: KnownParticipants) {
    guard let call = self[id] else { return }
    calls[call.place]?.commitsSeen = known.commitCount(of: call.request.participants)
  }

  /// The reply to a request whose participants are locked.
  func busy(_ call: Call) -> SynchronizedReply {
    let locked = call.request.participants.filter { locks[$0] != nil }
    // Kept back by another request, which is about to lock them.
    return .busy((locked.isEmpty ? call.request.participants : locked).sorted())
  }

  /// An attempt has failed.
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

  /// Whose change may let the event be taken.
  private static func obstacles(
    _ reply: SynchronizedReply, of request: TransactionRequest
  ) -> Set<String> {
    switch reply {
    case .refused(let withheld): Set(withheld.map(\.participant))
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

  /// Locks the participants of every request that can have all of them and takes none from an earlier
  /// one.
  /// - Parameter last: The last transaction that was given; the new ones follow it.
  mutating func takeTurns(
    after last: inout TransactionID, asking known: KnownParticipants
  ) -> [Turn] {
    var turns: [Turn] = []
    var reserved: Set<String> = []
    for place in queue {
      guard let call = calls[place], call.isQueued else { continue }
      let participants = call.request.participants
      if call.request.mode != .broadcast,
        let missing = participants.first(where: { !known.connected.contains($0) })
      {
        // After a start, one that is tried once waits for those who are on their way.
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
      // Those that are kept back reserve nothing: what they are kept back for may need it.
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

  /// Frees the locks of a transaction.
  mutating func unlock(_ participants: [String], of transaction: TransactionID) {
    for participant in participants {
      if let place = locks.index(forKey: participant), locks[place].value == transaction {
        locks.remove(at: place)
      }
    }
  }

  /// Who would refuse the event of a request that waits, as far as is known.
  private func refusals(of call: Call, _ known: KnownParticipants) -> [Withholding] {
    // One that is tried once is told what they say now.
    guard case .await = call.request.mode, !call.isInsistent else { return [] }
    return known.refusals(of: call.request.question, by: call.request.participants)
  }

  /// Lets the requests have their turn again that wait for one of these to change, unless somebody is
  /// known to refuse still.
  /// - Returns: Those that have.
  mutating func wake(
    _ participants: some Sequence<String>, asking known: KnownParticipants
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

  /// Puts a waiting request back into the queue, at the place that it came at.
  private mutating func queueAgain(_ place: UInt64) {
    calls[place]?.phase = .queued
    queue.insert(place, at: queue.firstIndex { $0 > place } ?? queue.endIndex)
  }
}

// An event that needs several participants at once could be kept waiting for ever by events that
// need fewer, or others. So a request that has often been overtaken keeps back later ones of the
// same event at a shared participant: for a while, since what it waits for may lie behind them.
extension RequestQueue {
  private func isKeptBack(_ call: Call) -> Bool {
    keepers > 0 && competitors(before: call).contains(where: \.keepsOthersBack)
  }

  /// Notes whom a request that was committed has overtaken.
  /// - Returns: Those that keep others back from now on.
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

  /// A request has kept others back long enough.
  mutating func stopKeepingBack(_ id: RequestID) {
    update(id) {
      $0.keepsOthersBack = false
      $0.overtaken = 0
    }
  }

  /// Earlier requests of the same event that share a participant with this one, in their order.
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
