import PipeMachines
import PipeWire

extension CoordinatorStateMachine {
  /// A request that is not answered.
  struct Call {
    let id: RequestID
    let request: TransactionRequest
    /// Its place among all that came.
    let place: UInt64
    var phase = Phase.queued
    /// How many commits its participants had had part in when it began to wait for their locks.
    var commitsSeen: UInt64 = 0
    /// Why it has failed so far.
    var failure: SynchronizedReply?
    /// The caller waits no longer than for what is under way.
    var isOverdue = false
    /// Its next attempt asks also those who are known to refuse.
    var isInsistent = false
    /// How often a later request has got the event.
    var overtaken = 0
    var keepsOthersBack = false

    enum Phase {
      /// Waits for locks.
      case queued
      case running(TransactionID)
      /// Waits until one of these has changed, who have refused.
      case sleeping(Set<String>)
      /// Was not tried, since these are known to refuse.
      case deferred([KnownRefusal])
    }

    var isQueued: Bool { if case .queued = phase { true } else { false } }

    var isRunning: Bool { if case .running = phase { true } else { false } }

    /// Whether it waits for a change of this participant.
    func waits(for participant: String) -> Bool {
      switch phase {
      case .sleeping(let obstacles): obstacles.contains(participant)
      case .deferred(let refusals): refusals.contains { $0.participant == participant }
      case .queued, .running: false
      }
    }

    /// Whether it waits for a change of somebody.
    var isWaiting: Bool {
      switch phase {
      case .sleeping, .deferred: true
      case .queued, .running: false
      }
    }
  }

  /// The requests that are not answered: by their numbers, by their places, by whom they need.
  struct Calls {
    private var byPlace: [UInt64: Call] = [:]
    private var places: [RequestID: UInt64] = [:]
    /// The places of those that need a participant, in order.
    private var byParticipant: [String: [UInt64]] = [:]
    private var lastPlace: UInt64 = 0
    /// How many keep others back.
    private(set) var keepers = 0

    var isEmpty: Bool { byPlace.isEmpty }

    /// All, in the order in which they came.
    var all: [Call] { byPlace.values.sorted { $0.place < $1.place } }

    subscript(id: RequestID) -> Call? { places[id].flatMap { byPlace[$0] } }

    subscript(place: UInt64) -> Call? { byPlace[place] }

    /// The places of those that need the participant, in the order in which they came.
    func needing(_ participant: String) -> [UInt64] { byParticipant[participant] ?? [] }

    /// Takes a request in, as the last one.
    mutating func add(_ id: RequestID, _ request: TransactionRequest) -> UInt64 {
      lastPlace += 1
      byPlace[lastPlace] = Call(id: id, request: request, place: lastPlace)
      places[id] = lastPlace
      for participant in request.participants {
        byParticipant[participant, default: []].append(lastPlace)
      }
      return lastPlace
    }

    mutating func remove(_ id: RequestID) -> Call? {
      guard let place = places.removeValue(forKey: id),
        let call = byPlace.removeValue(forKey: place)
      else { return nil }
      for participant in call.request.participants {
        byParticipant[participant]?.removeAll { $0 == place }
      }
      if call.keepsOthersBack { keepers -= 1 }
      return call
    }

    /// Changes one, if it is there.
    mutating func update(_ place: UInt64, _ change: (inout Call) -> Void) {
      guard var call = byPlace[place] else { return }
      let keptBefore = call.keepsOthersBack
      change(&call)
      byPlace[place] = call
      if call.keepsOthersBack != keptBefore { keepers += keptBefore ? -1 : 1 }
    }

    mutating func update(_ id: RequestID, _ change: (inout Call) -> Void) {
      if let place = places[id] { update(place, change) }
    }
  }
}
