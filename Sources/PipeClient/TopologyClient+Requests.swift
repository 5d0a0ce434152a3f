import PipeMachines
import PipeWire

extension TopologyClient {
  /// How often a node that is being started again is looked at.
  private static let pause: Duration = .milliseconds(10)

  /// Asks a node for something, once it runs.
  func request(
    _ name: String, _ content: ClientRequest.Content, timeout: Duration
  ) async throws -> RequestOutcome {
    switch try await exchange(name, content, timeout: timeout) {
    case .outcome(let outcome): return outcome
    case .synchronized(.atomic(let reply)): return try Self.outcome(reply, of: name)
    case .synchronized(.broadcast), .explained:
      throw TopologyClientError.outOfPlace
    }
  }

  /// What became of a composite's dead letter.
  private static func outcome(
    _ reply: SynchronizedReply, of composite: String
  ) throws(TopologyClientError) -> RequestOutcome {
    switch reply {
    case .committed: return .done
    case .refused(let withheld):
      return .refused(
        withheld.first?.reason ?? .noTransition, state: withheld.first?.state ?? .null)
    case .busy(let names):
      throw .busy(composite, "\(names.joined(separator: ", ")) took no event")
    case .unavailable(let name): throw .busy(composite, "'\(name)' does not run")
    case .unknown: throw .unknownOutcome(composite, after: nil)
    }
  }

  /// Asks a node, or a composite, for something, once it runs.
  func exchange(
    _ name: String, _ content: ClientRequest.Content, timeout: Duration
  ) async throws -> ClientRequest.Answer {
    let deadline = ContinuousClock.now + timeout
    var refusal: TopologyClientError?
    // A node that answered before is asked straight away; only where it is not connected the
    // orchestrator is asked why, or where it was something else that does not take this.
    if let known = shared.state.withLock({ $0.known[name] }),
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
      let left = deadline - .now
      if left > .zero, node.isRunning {
        do {
          return try await request(node, content, timeout: left, outOf: timeout)
        } catch let error as TopologyClientError {
          guard case .nodeDown = error else { throw error }
          // It was not applied: the node has been stopped since, or is not started yet.
          refusal = error
        }
      } else if left <= .zero, node.isRunning, let refusal {
        throw content.isForMachine ? refusal.asTimeout(of: name, after: timeout) : refusal
      } else if left <= .zero || !node.isComing(in: directory) {
        let late = left > .zero ? "" : "; waited \(timeout.shortText)"
        throw TopologyClientError.nodeDown(name, (node.reason ?? node.phase) + late)
      }
      try await Task.sleep(for: min(Self.pause, max(.zero, deadline - .now)))
    }
  }

  /// - Parameter timeout: The whole time that the caller gave, of which `left` is left.
  private func request(
    _ node: NodeInformation, _ content: ClientRequest.Content, timeout left: Duration,
    outOf timeout: Duration
  ) async throws -> ClientRequest.Answer {
    do {
      let answer: ClientRequest.Answer = try await call { sockets, resume in
        sockets.request(node, content, timeout: left, resume)
      }
      shared.state.withLock { $0.known[node.name] = node }
      return answer
    } catch TopologyClientError.unknownOutcome(let name, after: .some) {
      throw TopologyClientError.unknownOutcome(name, after: timeout)
    }
  }

  private func check(_ node: NodeInformation, takes content: ClientRequest.Content) throws {
    if case (.composite, .event) = (node.kind, content) { throw CompositeAsked() }
    let problem: String? =
      switch (node.kind, content) {
      case (.constant, _): "it is constant and takes no events"
      case (.monitor, _): "it is a monitor and takes no events"
      case (.machine, .synchronize): "it is no composite"
      case (.machine, .event), (.machine, .deadLetter), (.composite, .deadLetter),
        (.composite, .synchronize), (.machine, .explain), (.composite, .explain),
        (.composite, .event):
        nil
      }
    if let problem { throw TopologyClientError.invalidEvent(node.name, problem) }
  }
}

extension ClientRequest.Content {
  /// Whether it is an event, or a dead letter, for a node's machine.
  fileprivate var isForMachine: Bool {
    switch self {
    case .event, .deadLetter: true
    case .synchronize, .explain: false
    }
  }
}

extension TopologyClientError {
  /// What is told of a node that runs, and did not take what was sent in the time that there was.
  fileprivate func asTimeout(of node: String, after time: Duration) -> TopologyClientError {
    guard case .nodeDown(_, let reason) = self else { return self }
    return .timedOut(
      "after \(time.shortText): node '\(node)' runs and took nothing: \(reason). Nothing was applied"
    )
  }
}

/// An event was sent to a composite, which passes on what is one node's own.
struct CompositeAsked: Error {}

extension NodeInformation {
  /// Whether it does not run, and likely soon will without being asked to.
  func isComing(in directory: TopologyDirectory) -> Bool {
    switch phase {
    case "adopting", "starting", "configuring", "ready", "backing off": true
    case "stopping": directory.phase != "stopping"
    case "idle": directory.phase == "starting"
    case "waiting":
      // For the node in whose process it lives.
      within.flatMap { directory[node: $0] }
        .map { $0.isRunning || $0.isComing(in: directory) } ?? false
    default: false
    }
  }
}
