// Sending events, and requesting synchronized events.
extension CompositeRun {
  /// Sends an event to the component at index `position`.
  func send(
    _ event: any MachineEvent, to position: Int,
    answer: @escaping @Sendable (SendOutcome<any MachineState>) -> Void
  ) {
    let sender = PendingStep.ofCaller
    post { [self] in
      guard !isFinished else { return answer(.finished) }
      hosts[position].offer(event, by: sender, answer: answer)
      schedulePump(position)
    }
  }

  /// Returns the indices of the components that participate in a composite's synchronized event.
  /// Throws if a participant cannot read the event.
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
      let position = try position(of: name)
      do throws(SynchronizedEventError) {
        _ = try components[position].readEvent(event)
      } catch {
        throw .noEvent(error, component: name)
      }
      participants.append(position)
    }
    return participants
  }

  /// Requests a synchronized event. Call the returned function to stop waiting for the event. The
  /// request is then answered with the failure of its last attempt.
  /// - Parameter waits: Whether the request is tried again until all participants accept the event.
  func requestEvent(
    _ event: SynchronizedEvent, _ participants: [Int], waits: Bool,
    answer: @escaping @Sendable (SynchronizedReply) -> Void
  ) -> @Sendable () -> Void {
    let id = mailbox.withLock { _ in nextRequest() }
    let sender = PendingStep.ofCaller
    post { [self] in
      // If the sender is a step of a participant, waiting would be a deadlock: the step would wait
      // for itself.
      let isSentByParticipant = sender.map { sender in
        participants.contains { hosts[$0].isInStep(awaiting: sender) }
      }
      beginRequest(
        Request(
          id: id, event: event, participants: participants,
          waitsUntilEnabled: waits && isSentByParticipant != true,
          isWanted: { true }, answer: answer))
    }
    return { [self] in post { [self] in endWait(id) } }
  }

  /// Returns a new request number. The lock of the mailbox guards the counter.
  private func nextRequest() -> UInt64 {
    lastRequestID += 1
    return lastRequestID
  }

  /// Requests a synchronized event for an effect of a component. The request waits until all
  /// participants accept the event.
  func emit(
    _ event: SynchronizedEvent, of position: Int, isWanted: @escaping () -> Bool,
    answer: @escaping (Bool) -> Void
  ) {
    let vectors = composition.vectors(of: hosts[position].name, event: event.name)
    // If several composites synchronize the event, it is unknown which composite the effect means.
    guard vectors.count == 1, let participants = try? participants(of: event, vectors[0])
    else { return answer(true) }
    let id = mailbox.withLock { _ in nextRequest() }
    beginRequest(
      Request(
        id: id, event: event, participants: participants, waitsUntilEnabled: true,
        isWanted: isWanted,
        answer: { reply in answer(reply.isCommitted) }))
  }

  private func beginRequest(_ request: Request) {
    guard !isFinished else { return request.answer(.unavailable(name)) }
    requests.append(request)
    attempt(request.id)
  }

  /// Tries each waiting request once, in order of arrival.
  func retry() {
    for id in requests.map(\.id) { attempt(id) }
  }

  private func attempt(_ id: UInt64) {
    guard let position = requests.firstIndex(where: { $0.id == id }),
      requests[position].evaluation == nil
    else { return }
    let request = requests[position]
    guard request.isWanted() else {
      requests.remove(at: position)
      return request.answer(.unavailable(name))
    }
    var blockers: [BlockingParticipant] = []
    var busy: [String] = []
    var suspended: [(Int, SuspendedTransition<any Sendable>)] = []
    for participant in request.participants {
      let host = hosts[participant]
      switch host.prepare(request.event) {
      case .next?, .stays?, .ignored?: continue
      case .suspended(let run)?: suspended.append((participant, run))
      case nil: busy.append(host.name)
      case .refused(let refusal)?: blockers.append(blockingParticipant(of: host, refusal))
      }
    }
    if blockers.isEmpty && busy.isEmpty {
      if suspended.isEmpty { commit(id) } else { run(suspended, for: id) }
      return
    }
    fail(position, blockers.isEmpty ? .busy(busy) : .refused(blockers))
  }

  /// Handles a failed attempt at a request. If the request waits, stores the failure; otherwise,
  /// answers the request with the failure.
  private func fail(_ position: Int, _ failure: SynchronizedReply) {
    if requests[position].waitsUntilEnabled {
      requests[position].failure = failure
    } else {
      requests.remove(at: position).answer(failure)
    }
  }

  private func blockingParticipant(of host: any ComponentHost, _ refusal: Refusal)
    -> BlockingParticipant
  {
    BlockingParticipant(
      participant: host.name, state: ComponentState(host.state, isCompared: false).json,
      version: host.version, reason: refusal)
  }

  /// Commits a request whose participants are all prepared. First the participants change their
  /// states, then the composite publishes its new state, and then the participants enter their new
  /// states.
  private func commit(_ id: UInt64) {
    guard let position = requests.firstIndex(where: { $0.id == id }) else { return }
    let request = requests.remove(at: position)
    for participant in request.participants {
      hosts[participant].isFrozen = false
      hosts[participant].adopt()
    }
    publish()
    for participant in request.participants { hosts[participant].enter() }
    scheduledPumps.formUnion(request.participants)
    hasStepped = true
    lastTransaction += 1
    let versions = request.participants.map { (hosts[$0].name, hosts[$0].version) }
    request.answer(
      .committed(
        TransactionID(epoch: 1, sequence: lastTransaction),
        versions: Dictionary(uniqueKeysWithValues: versions)))
  }

  /// Ends the wait of a request.
  private func endWait(_ id: UInt64) {
    guard let position = requests.firstIndex(where: { $0.id == id }) else { return }
    // If the transitions of the request are running, their outcome becomes the answer.
    guard requests[position].evaluation == nil else {
      return requests[position].waitsUntilEnabled = false
    }
    let request = requests.remove(at: position)
    request.answer(request.failure ?? .busy(request.participants.map { hosts[$0].name }))
  }
}

// Asynchronous transitions of synchronized events.
extension CompositeRun {
  /// The asynchronous transitions of one attempt.
  struct Evaluation {
    /// The number of this attempt. Transitions of earlier attempts at the same request may still
    /// return, with other numbers.
    let number: UInt64
    /// The participants whose transitions have not returned.
    var missingParticipants: Set<Int>
    /// The tasks of the transitions and of their time limits.
    var tasks: [Task<Void, Never>] = []
  }

  /// Runs the asynchronous transitions of an attempt. The participants process no other input until
  /// the attempt ends.
  private func run(_ transitions: [(Int, SuspendedTransition<any Sendable>)], for id: UInt64) {
    guard let position = requests.firstIndex(where: { $0.id == id }) else { return }
    for participant in requests[position].participants { hosts[participant].isFrozen = true }
    lastEvaluationNumber += 1
    let number = lastEvaluationNumber
    var evaluation = Evaluation(number: number, missingParticipants: Set(transitions.map(\.0)))
    for (participant, run) in transitions {
      hosts[participant].begin()
      evaluation.tasks.append(
        Task { [weak self] in
          // The transition may never return, so it must not keep the composite's run alive.
          let result: Result<TransitionTarget<any Sendable>, RefusedStep>
          do { result = .success(try await run.target()) } catch {
            result = .failure(RefusedStep(refusal: .thrown(by: error)))
          }
          self?.post { [weak self] in self?.returned(result, from: participant, of: number) }
        })
      guard let limit = run.limit else { continue }
      evaluation.tasks.append(
        Task { [self] in
          do { try await clock.sleep(for: limit) } catch { return }
          post { [self] in refused(.timedOut, by: participant, number) }
        })
    }
    requests[position].evaluation = evaluation
  }

  /// Handles a transition that has returned or thrown, even if its attempt has already ended.
  private func returned(
    _ result: Result<TransitionTarget<any Sendable>, RefusedStep>, from participant: Int,
    of number: UInt64
  ) {
    guard !isFinished else { return }
    hosts[participant].returned()
    switch result {
    case .success(let target): complete(target, from: participant, of: number)
    case .failure(let step): refused(step.refusal, by: participant, number)
    }
  }

  /// Returns the index of the request whose attempt waits for a participant's transition; `nil` if
  /// the attempt has ended.
  private func position(of number: UInt64, missing participant: Int) -> Int? {
    requests.firstIndex {
      $0.evaluation?.number == number
        && $0.evaluation?.missingParticipants.contains(participant) == true
    }
  }

  /// Records the result of a transition. After the last transition, all participants are prepared
  /// and the request is committed.
  private func complete(
    _ target: TransitionTarget<any Sendable>, from participant: Int, of number: UInt64
  ) {
    guard let position = position(of: number, missing: participant) else { return }
    requests[position].evaluation?.missingParticipants.remove(participant)
    hosts[participant].complete(with: target)
    guard requests[position].evaluation?.missingParticipants.isEmpty == true else { return }
    endEvaluation(position)
    commit(requests[position].id)
  }

  /// Ends an attempt whose transition has thrown or exceeded its time limit. All participants keep
  /// their states.
  private func refused(_ refusal: Refusal, by participant: Int, _ number: UInt64) {
    guard !isFinished, let position = position(of: number, missing: participant) else { return }
    let id = requests[position].id
    endEvaluation(position)
    for participant in requests[position].participants {
      hosts[participant].isFrozen = false
      hosts[participant].abandon()
    }
    scheduledPumps.formUnion(requests[position].participants)
    fail(position, .refused([blockingParticipant(of: hosts[participant], refusal)]))
    // Retries the requests that failed because a participant was busy with this attempt.
    for other in requests.filter({ $0.id != id && $0.isBlockedByBusyParticipant }).map(\.id) {
      attempt(other)
    }
  }

  /// Cancels the tasks of an attempt, and stops waiting for the attempt's transitions.
  private func endEvaluation(_ position: Int) {
    for task in requests[position].evaluation?.tasks ?? [] { task.cancel() }
    requests[position].evaluation = nil
  }
}
