import PipeMachines
import PipeSupport
import PipeWire

extension TopologyClient {
  /// The interval of checks on a node that is being restarted.
  private static let checkInterval: Duration = .milliseconds(10)

  /// Sends a request to a node. If the node is being started, waits until it runs.
  func request(
    _ name: String, _ content: ClientRequest.Content, timeout: Duration
  ) async throws -> RequestOutcome {
    switch try await exchange(name, content, timeout: timeout) {
    case .outcome(let outcome): return outcome
    case .synchronized(.atomic(let reply)): return try Self.outcome(reply, of: name)
    case .synchronized(.broadcast), .explained, .gated:
      throw TopologyClientError.unexpectedAnswer
    }
  }

  /// Converts a coordinator's reply to a request about a dead letter into the outcome of the
  /// request.
  private static func outcome(
    _ reply: SynchronizedReply, of composite: String
  ) throws(TopologyClientError) -> RequestOutcome {
    switch reply {
    case .committed: return .done
    case .refused(let refusals):
      return .refused(
        refusals.first?.reason ?? .noTransition, state: refusals.first?.state ?? .null)
    case .busy(let names):
      throw .busy(composite, "\(names.joined(separator: ", ")) accepted no event")
    case .unavailable(let name): throw .busy(composite, "'\(name)' is not running")
    case .unknown: throw .unknownOutcome(composite, after: nil)
    }
  }

  /// Sends a request to a node or a composite. If the node is being started, waits until it runs.
  func exchange(
    _ name: String, _ content: ClientRequest.Content, timeout: Duration
  ) async throws -> ClientRequest.Answer {
    let deadline = ContinuousClock.now + timeout
    var refusal: TopologyClientError?
    // Sends the request directly to a known node, without asking the orchestrator first, if the
    // node is connected and of a kind that can process the request.
    if let known = shared.state.withLock({ $0.knownNodes[name] }),
      (try? check(known, takes: content)) != nil
    {
      do {
        let answer: ClientRequest.Answer? = try await call { sockets, resume in
          if !sockets.requestIfConnected(known, content, timeout: timeout, resume) {
            resume(.success(nil))
          }
        }
        if let answer { return answer }
      } catch let error as TopologyClientError {
        guard case .nodeDown = error else { throw error }
        refusal = error
      }
    }
    while true {
      let directory = try await sharedDirectory()
      let node = try node(name, in: directory)
      try check(node, takes: content)
      let remaining = deadline - .now
      if remaining > .zero, node.isRunning {
        do {
          return try await request(node, content, timeout: remaining, outOf: timeout)
        } catch let error as TopologyClientError {
          guard case .nodeDown = error else { throw error }
          // The request was not applied. The node has stopped since the topology directory was
          // read, or has not started yet.
          refusal = error
        }
      } else if remaining <= .zero, node.isRunning, let refusal {
        throw content.isForMachine ? refusal.asTimeout(of: name, after: timeout) : refusal
      } else if remaining <= .zero || !node.isAboutToRun(in: directory) {
        let waitNote = remaining > .zero ? "" : "; waited \(timeout.shortText)"
        throw TopologyClientError.nodeDown(name, (node.reason ?? node.phase) + waitNote)
      }
      try await Task.sleep(for: min(Self.checkInterval, max(.zero, deadline - .now)))
    }
  }

  /// - Parameters:
  ///   - remaining: The part of `timeout` that is left.
  ///   - timeout: The time that the caller allowed.
  private func request(
    _ node: NodeInformation, _ content: ClientRequest.Content, timeout remaining: Duration,
    outOf timeout: Duration
  ) async throws -> ClientRequest.Answer {
    do {
      let answer: ClientRequest.Answer = try await call { sockets, resume in
        sockets.request(node, content, timeout: remaining, resume)
      }
      shared.state.withLock { $0.knownNodes[node.name] = node }
      return answer
    } catch TopologyClientError.unknownOutcome(let name, after: .some) {
      throw TopologyClientError.unknownOutcome(name, after: timeout)
    }
  }

  private func check(_ node: NodeInformation, takes content: ClientRequest.Content) throws {
    if case (.composite, .event) = (node.kind, content) { throw CompositeRecipientError() }
    let problem: String? =
      switch (node.kind, content) {
      case (.constant, _): TopologyClientError.constantProblem
      case (.monitor, _): TopologyClientError.monitorProblem
      case (.machine, .synchronize): "the node is not a composite"
      case (.machine, .event), (.machine, .deadLetter), (.composite, .deadLetter),
        (.composite, .synchronize), (.machine, .explain), (.composite, .explain),
        (.composite, .event), (.machine, .gate), (.composite, .gate):
        nil
      }
    if let problem { throw TopologyClientError.invalidEvent(node.name, problem) }
  }
}

extension ClientRequest.Content {
  /// Whether the request is for a node's machine: an event, or a dead letter.
  fileprivate var isForMachine: Bool {
    switch self {
    case .event, .deadLetter: true
    case .synchronize, .explain, .gate: false
    }
  }
}

extension TopologyClientError {
  /// Returns the error for a node that is running, but has not accepted the request in time.
  fileprivate func asTimeout(of node: String, after time: Duration) -> TopologyClientError {
    guard case .nodeDown(_, let reason) = self else { return self }
    return .timedOut(
      "after \(time.shortText): node '\(node)' is running, but accepted no event: \(reason); "
        + "nothing was applied"
    )
  }
}

/// The error that an event was sent to a composite as if the composite were a single node. The
/// caller then sends the event to the component that accepts it.
struct CompositeRecipientError: Error {}

extension NodeInformation {
  /// Whether the node is not running, but will probably run soon without a command.
  package func isAboutToRun(in directory: TopologyDirectory) -> Bool {
    switch phase {
    case "adopting", "starting", "configuring", "ready", "backing off": true
    case "stopping": directory.phase != "stopping"
    case "idle": directory.phase == "starting" || directory.phase == "changing"
    // While a changed topology file is being applied, the nodes that the file changes are stopped
    // for a moment.
    case "stopped": directory.phase == "changing"
    case "waiting":
      // An embedded coordinator waits until its carrier node runs.
      within.flatMap { directory[node: $0] }
        .map { $0.isRunning || $0.isAboutToRun(in: directory) } ?? false
    default: false
    }
  }

  /// Whether the node is not running, and starts again only on command.
  var isTerminated: Bool { ["stopped", "completed", "failed"].contains(phase) }
}

// Events whose recipient is given by name: a node or a composite.
extension TopologyClient {
  /// Returns the events that can be sent to a node or a composite, with their fields. For a
  /// composite, these are first the events that it synchronizes, then the events that a single
  /// component accepts on its own.
  /// - Throws: ``TopologyClientError``: `failed` if a node has not described itself yet.
  package func alphabet(of name: String) async throws -> [CaseDescription] {
    guard try await node(name, in: directory(fresh: false)).kind == .composite else {
      let machine = try await describe(name)
      return machine.events.filter { machine.alphabet.contains($0.name) }
    }
    guard let plan = try await plan(of: name) else { throw Self.unknownComposite(name) }
    var events = plan.events
    for node in Set(plan.nodesByOwnEvent.values).sorted() {
      events += try await describe(node).events.filter { plan.nodesByOwnEvent[$0.name] == node }
    }
    return events
  }

  /// Sends an event to a node or a composite. If a single component of the composite accepts the
  /// event on its own, the event goes to that component.
  package func deliver(
    _ event: JSONValue, to name: String, timeout: Duration? = nil
  ) async throws -> EventDelivery {
    let directory = try await directory(fresh: false)
    let (name, event) = try await addressed(name, event)
    let target = try node(name, in: directory)
    let owner = target.kind == .composite ? try await owner(of: event, in: name) : nil
    let outcome: EventDelivery.Outcome =
      target.kind == .composite && owner == nil
      ? .composite(try await synchronize(name, json: event, timeout: timeout))
      : .node(try await send(owner ?? name, json: event, timeout: timeout))
    return EventDelivery(
      event: event, recipient: owner ?? name, outcome: outcome,
      stateFields: directory.stateFields)
  }

  /// Resolves the name of an instance of a composite with a `key`, such as `fulfil[4711]`: returns
  /// the composite's name, and the event with the instance's key in its key field. Returns any
  /// other name unchanged, with the unchanged event.
  package func addressed(
    _ name: String, _ event: JSONValue
  ) async throws -> (name: String, event: JSONValue) {
    guard let instance = InstanceName(name) else { return (name, event) }
    let directory = try await directory(fresh: false)
    guard let composite = directory[node: instance.node], composite.kind == .composite else {
      return (name, event)
    }
    guard let field = composite.instanceField else {
      throw TopologyClientError.invalidEvent(
        composite.name, "the composite has no 'key' in the topology file")
    }
    return (composite.name, instance.event(event, keyedBy: field))
  }

  /// Returns the component of a composite that accepts an event on its own; `nil` if the composite
  /// synchronizes the event, or no component can accept it.
  package func owner(of event: JSONValue, in composite: String) async throws -> String? {
    guard let name = event.caseName else { return nil }
    return try await plan(of: composite)?.nodesByOwnEvent[name]
  }

  /// Returns the component of a composite that accepts an event on its own.
  /// - Throws: ``TopologyClientError``: `invalidEvent` if the event is synchronized, or if no
  ///   component or several components accept it.
  package func acceptingNode(of event: String, in composite: String) async throws -> String {
    guard let plan = try await plan(of: composite) else { throw Self.unknownComposite(composite) }
    if let node = plan.nodesByOwnEvent[event] { return node }
    throw TopologyClientError.invalidEvent(
      composite,
      plan.vector(of: event) == nil
        ? plan.refusal(of: event)
        : "the composite synchronizes '\(event)'; request this event with 'synchronize'")
  }

  /// Returns the plan of a composite; `nil` until its nodes have described themselves.
  private func plan(of composite: String) async throws -> CompositePlan? {
    try await conflictClasses().lazy.compactMap { $0[composite] }.first
  }

  static func unknownComposite(_ name: String) -> TopologyClientError {
    .failed("composite '\(name)' is not known yet; try again")
  }
}

// Events that several nodes accept together.
extension TopologyClient {
  /// Requests a synchronized event from a composite. Either all participants accept the event, or
  /// none does.
  /// - Parameters:
  ///   - mode: Whether the composite tries the event once, or waits until the event is enabled.
  ///   - timeout: The maximum wait for the answer, in addition to the time that `mode` allows;
  ///     `nil` means 5 s.
  /// - Returns: The outcome. If the outcome is `unknown`, ask for it later with
  ///   ``ask(_:about:timeout:)``.
  /// - Throws: ``TopologyClientError``; `unknownOutcome` if the composite did not answer.
  public func synchronize(
    _ composite: String, _ event: some MachineEvent, mode: SynchronizedMode = .try,
    timeout: Duration? = nil
  ) async throws -> SynchronizedReply {
    try await synchronize(
      composite, json: JSONValue(parsing: EventCodec().encode(event)), mode: mode,
      timeout: timeout)
  }

  /// Requests a synchronized event that is given as JSON: `"open"` for an event without values, or
  /// `{"go": {"floor": 3}}`.
  public func synchronize(
    _ composite: String, json event: JSONValue, mode: SynchronizedMode = .try,
    timeout: Duration? = nil
  ) async throws -> SynchronizedReply {
    let (flag, limit): (SynchronizeFlag, Duration?) =
      switch mode {
      case .try: (.try, .zero)
      case .await(let limit): (.await, limit)
      }
    let (composite, event) = try await addressed(composite, event)
    // A count of zero would mean no limit, so the count is at least 1. A limit that is too long for
    // the count becomes the maximum, which is as good as no limit.
    let count = limit.map { flag == .await ? UInt32(clamping: max(1, $0.wholeMilliseconds)) : 0 }
    let reply = try await exchangeTransaction(
      composite, try Self.requestBody(composite, event), flag, count: count ?? 0,
      timeout: (timeout ?? answerTimeout) + (limit ?? Self.unlimitedTimeout))
    guard case .atomic(let answer) = reply else {
      throw TopologyClientError.unexpectedAnswer
    }
    return answer
  }

  /// Asks each participant of a synchronized event to accept the event independently of the others.
  /// Some participants may accept the event while others refuse it.
  /// - Returns: The result of each participant.
  public func broadcast(
    _ composite: String, json event: JSONValue, timeout: Duration? = nil
  ) async throws -> [String: BroadcastResult] {
    let (composite, event) = try await addressed(composite, event)
    let reply = try await exchangeTransaction(
      composite, try Self.requestBody(composite, event), .broadcast, count: 0,
      timeout: timeout ?? answerTimeout)
    guard case .broadcast(let results) = reply else {
      throw TopologyClientError.unexpectedAnswer
    }
    return results
  }

  /// Asks a composite for the outcome of a transaction. Call this if an earlier reply was
  /// `unknown`.
  public func ask(
    _ composite: String, about transaction: TransactionID, timeout: Duration? = nil
  ) async throws -> SynchronizedReply {
    let reply = try await exchangeTransaction(
      composite, Array("\(transaction)".utf8), .ask, count: 0, timeout: timeout ?? answerTimeout)
    switch reply {
    case .atomic(let answer): return answer
    case .broadcast:
      throw TopologyClientError.invalidEvent(composite, "transaction \(transaction) is a broadcast")
    }
  }

  private static let unlimitedTimeout: Duration = .seconds(100 * 365 * 86_400)

  private static func requestBody(_ composite: String, _ event: JSONValue) throws -> [UInt8] {
    let bytes = event.bytes
    guard bytes.count + composite.utf8.count < WireLimits.maximumEventByteCount else {
      throw TopologyClientError.invalidEvent(
        composite,
        "the event has \(bytes.count) bytes; the limit is \(WireLimits.maximumEventByteCount)")
    }
    return TransactionBody(composite: composite, event: bytes).bytes
  }

  private func exchangeTransaction(
    _ composite: String, _ body: [UInt8], _ flag: SynchronizeFlag, count: UInt32,
    timeout: Duration
  ) async throws -> TransactionReply {
    do {
      let answer = try await exchange(
        composite, .synchronize(body, flag, count: count), timeout: timeout)
      guard case .synchronized(let reply) = answer else {
        throw TopologyClientError.unexpectedAnswer
      }
      return reply
    } catch TopologyClientError.nodeDown(let name, _) where flag != .broadcast && flag != .ask {
      // No participant was asked.
      return .atomic(.unavailable(name))
    }
  }
}
