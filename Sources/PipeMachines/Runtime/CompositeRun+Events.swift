// Events.
extension CompositeRun {
  /// Sends to one component.
  func send(
    _ event: any MachineEvent, to place: Int,
    answer: @escaping @Sendable (SendOutcome<any MachineState>) -> Void
  ) {
    let sender = AwaitedStep.ofCaller
    post { [self] in
      guard !isFinished else { return answer(.finished) }
      hosts[place].offer(event, by: sender, answer: answer)
      touch(place)
    }
  }

  /// Who takes part in an event of a composite, all of whom can read it.
  func participants(
    of event: SynchronizedEvent, in composite: String
  ) throws(RoutingError) -> [Int] {
    let vector = try composition.vector(event.name, of: composite)
    return try participants(of: event, vector)
  }

  private func participants(
    of event: SynchronizedEvent, _ vector: SyncVector
  ) throws(RoutingError) -> [Int] {
    var participants: [Int] = []
    for name in vector.participants {
      let place = try place(of: name)
      do throws(SynchronizedEventError) {
        _ = try components[place].read(event)
      } catch {
        throw .noEvent(error, component: name)
      }
      participants.append(place)
    }
    return participants
  }

  /// Asks for a synchronized event; returns a function that ends the waiting, with an answer.
  func ask(
    _ event: SynchronizedEvent, _ participants: [Int], waits: Bool,
    answer: @escaping @Sendable (SynchronizedReply) -> Void
  ) -> @Sendable () -> Void {
    let id = mailbox.withLock { _ in nextRequest() }
    let sender = AwaitedStep.ofCaller
    post { [self] in
      // A step that waits for an event of its own machine would wait for ever.
      let isOwn = sender.map { sender in
        participants.contains { hosts[$0].isInStep(awaiting: sender) }
      }
      begin(
        Request(
          id: id, event: event, participants: participants, waits: waits && isOwn != true,
          isWanted: { true }, answer: answer))
    }
    return { [self] in post { [self] in giveUp(id) } }
  }

  /// The mailbox's lock guards the count.
  private func nextRequest() -> UInt64 {
    lastRequest += 1
    return lastRequest
  }

  /// An effect of a component has a synchronized event: it waits until all take it.
  func emit(
    _ event: SynchronizedEvent, of place: Int, isWanted: @escaping () -> Bool,
    answer: @escaping (Bool) -> Void
  ) {
    let vectors = composition.vectors(of: hosts[place].name, event: event.name)
    // Where several composites synchronize it, an effect cannot say which one it means.
    guard vectors.count == 1, let participants = try? participants(of: event, vectors[0])
    else { return answer(true) }
    let id = mailbox.withLock { _ in nextRequest() }
    begin(
      Request(
        id: id, event: event, participants: participants, waits: true, isWanted: isWanted,
        answer: { reply in answer(reply.isCommitted) }))
  }

  private func begin(_ request: Request) {
    guard !isFinished else { return request.answer(.unavailable(name)) }
    requests.append(request)
    attempt(request.id)
  }

  /// Tries all waiting requests once, in the order in which they came.
  func retry() {
    for id in requests.map(\.id) { attempt(id) }
  }

  private func attempt(_ id: UInt64) {
    guard let place = requests.firstIndex(where: { $0.id == id }),
      requests[place].evaluation == nil
    else { return }
    let request = requests[place]
    guard request.isWanted() else {
      requests.remove(at: place)
      return request.answer(.unavailable(name))
    }
    var withheld: [Withholding] = []
    var busy: [String] = []
    var suspended: [(Int, SuspendedTransition<any Sendable>)] = []
    for participant in request.participants {
      let host = hosts[participant]
      switch host.prepare(request.event) {
      case .next?: continue
      case .suspended(let run)?: suspended.append((participant, run))
      case nil: busy.append(host.name)
      case .refused(let refusal)?: withheld.append(withholding(of: host, refusal))
      }
    }
    if withheld.isEmpty && busy.isEmpty {
      if suspended.isEmpty { commit(id) } else { run(suspended, for: id) }
      return
    }
    fail(place, withheld.isEmpty ? .busy(busy) : .refused(withheld))
  }

  /// An attempt at a request has come to nothing.
  private func fail(_ place: Int, _ failure: SynchronizedReply) {
    if requests[place].waits {
      requests[place].failure = failure
    } else {
      requests.remove(at: place).answer(failure)
    }
  }

  private func withholding(of host: any ComponentHost, _ refusal: Refusal) -> Withholding {
    Withholding(
      participant: host.name, state: ComponentState(host.state, isCompared: false).json,
      version: host.version, reason: refusal)
  }

  /// All participants are prepared: they move, the composite shows it, then they enter.
  private func commit(_ id: UInt64) {
    guard let place = requests.firstIndex(where: { $0.id == id }) else { return }
    let request = requests.remove(at: place)
    for participant in request.participants {
      hosts[participant].isFrozen = false
      hosts[participant].adopt()
    }
    publish()
    for participant in request.participants { hosts[participant].enter() }
    touched.formUnion(request.participants)
    hasStepped = true
    lastTransaction += 1
    let versions = request.participants.map { (hosts[$0].name, hosts[$0].version) }
    request.answer(
      .committed(
        TransactionID(epoch: 1, sequence: lastTransaction),
        versions: Dictionary(uniqueKeysWithValues: versions)))
  }

  /// The time of a request is up.
  private func giveUp(_ id: UInt64) {
    guard let place = requests.firstIndex(where: { $0.id == id }) else { return }
    // What its transitions lead to is its answer, this time whatever it is.
    guard requests[place].evaluation == nil else { return requests[place].waits = false }
    let request = requests.remove(at: place)
    request.answer(request.failure ?? .busy(request.participants.map { hosts[$0].name }))
  }
}

// Asynchronous transitions.
extension CompositeRun {
  /// The transitions of one attempt that take their time.
  struct Evaluation {
    /// Tells it from other attempts at the same request, whose transitions may return now.
    let number: UInt64
    /// Those that have not returned.
    var missing: Set<Int>
    /// The work, and its time limits.
    var tasks: [Task<Void, Never>] = []
  }

  /// Runs asynchronous transitions, while the participants take nothing else.
  private func run(_ transitions: [(Int, SuspendedTransition<any Sendable>)], for id: UInt64) {
    guard let place = requests.firstIndex(where: { $0.id == id }) else { return }
    for participant in requests[place].participants { hosts[participant].isFrozen = true }
    lastEvaluation += 1
    let number = lastEvaluation
    var evaluation = Evaluation(number: number, missing: Set(transitions.map(\.0)))
    for (participant, run) in transitions {
      hosts[participant].begin()
      evaluation.tasks.append(
        Task { [weak self] in
          // It may never return, and does not keep the run.
          let result: Reduction<any Sendable>
          do { result = .next(try await run()) } catch { result = .refused(.thrown(by: error)) }
          self?.post { [weak self] in self?.returned(result, from: participant, of: number) }
        })
      guard let limit = run.limit else { continue }
      evaluation.tasks.append(
        Task { [self] in
          do { try await clock.sleep(for: limit) } catch { return }
          post { [self] in refused(.overdue, by: participant, number) }
        })
    }
    requests[place].evaluation = evaluation
  }

  /// A transition has returned or thrown, maybe when nobody waits for it any more.
  private func returned(
    _ result: Reduction<any Sendable>, from participant: Int, of number: UInt64
  ) {
    guard !isFinished else { return }
    hosts[participant].returned()
    switch result {
    case .next(let state): complete(state, from: participant, of: number)
    case .refused(let refusal): refused(refusal, by: participant, number)
    case .suspended: break
    }
  }

  /// The place of the request whose attempt waits for a participant.
  private func place(of number: UInt64, missing participant: Int) -> Int? {
    requests.firstIndex {
      $0.evaluation?.number == number && $0.evaluation?.missing.contains(participant) == true
    }
  }

  /// With the last of the transitions all participants are prepared.
  private func complete(_ state: any Sendable, from participant: Int, of number: UInt64) {
    guard let place = place(of: number, missing: participant) else { return }
    requests[place].evaluation?.missing.remove(participant)
    hosts[participant].complete(with: state)
    guard requests[place].evaluation?.missing.isEmpty == true else { return }
    end(place)
    commit(requests[place].id)
  }

  /// A transition has thrown, or has not returned in time: all stand where they stood.
  private func refused(_ refusal: Refusal, by participant: Int, _ number: UInt64) {
    guard !isFinished, let place = place(of: number, missing: participant) else { return }
    let id = requests[place].id
    end(place)
    for participant in requests[place].participants {
      hosts[participant].isFrozen = false
      hosts[participant].abandon()
    }
    touched.formUnion(requests[place].participants)
    fail(place, .refused([withholding(of: hosts[participant], refusal)]))
    // Those that found a participant busy with it.
    for other in requests.filter({ $0.id != id && $0.isHeldUp }).map(\.id) { attempt(other) }
  }

  /// No transition of an attempt is waited for any more.
  private func end(_ place: Int) {
    for task in requests[place].evaluation?.tasks ?? [] { task.cancel() }
    requests[place].evaluation = nil
  }
}
