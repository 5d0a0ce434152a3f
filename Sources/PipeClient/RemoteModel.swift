import PipeMachines
import PipeSupport
import PipeWire

/// A node of a running topology, used as a model in this process. The state comes from the node's
/// feed. Events are sent to the node in the order of the calls.
///
/// ```swift
/// let lamp = try await RemoteModel<LampState, LampEvent>("lamp", of: client)
/// ```
///
/// If your code depends on a protocol, make the remote model conform to that protocol:
///
/// ```swift
/// extension RemoteModel: LampModelProtocol where State == LampState, Event == LampEvent {
///   nonisolated func toggle() { post(.toggle) }
/// }
/// ```
///
/// While the node is not running, ``state`` is the last state that the node reported, ``problem``
/// contains the reason, and events are not accepted. The model continues when the node is running
/// again. When the topology stops, or the client is closed, the model's states end.
public actor RemoteModel<State: MachineState & StateProtocol, Event: MachineEvent>:
  StateMachineProtocol
{
  /// The node's name.
  public nonisolated let node: String
  private nonisolated let feed: RemoteFeed<State>
  private nonisolated let sender: RemoteSender<Event>
  private nonisolated let problems: ConcurrentValueSubject<TopologyClientError?>
  private nonisolated let isDurable: Bool

  /// Connects to a node that is running or will soon run.
  /// - Parameters:
  ///   - node: The name of a machine, a model, a constant, a composite, or an existing instance
  ///     such as `orders[4711]`. A composite accepts no events through a remote model.
  ///   - timeout: The maximum wait for the outcome of an event. The default, `nil`, means the
  ///     client's timeout.
  /// - Throws: ``TopologyClientError``: `unknownNode`; `nodeDown` if the node is not running;
  ///   `otherType` if the node's states or events do not have these types.
  public init(_ node: String, of client: TopologyClient, timeout: Duration? = nil) async throws {
    let information = try await Self.find(node, of: client)
    let stream = try await client.states(of: [node])
    let change = try await Self.currentState(of: stream, node, of: client)
    let problems = ConcurrentValueSubject<TopologyClientError?>(nil)
    self.node = node
    self.problems = problems
    isDurable = information.durability != .volatile
    feed = try RemoteFeed(first: change, of: stream) { problem in
      if problem != nil || problems.state != nil { problems.send(problem) }
    }
    sender = RemoteSender { event in
      try await client.send(node, event, timeout: timeout)
    }
  }

  /// The last state that the node has reported.
  public nonisolated var state: State { feed.state }

  /// The last state that the node has reported, then each later state, including the intermediate
  /// states of a model.
  public nonisolated var stateDidChange: StatePublisher<State> { feed.states.projected(\.state) }

  /// The reason why the last event did not reach the node, or why the node's last state does not
  /// have the type `State`. `nil` again after an event has reached the node, or after a state of
  /// this type has arrived.
  public nonisolated var problem: TopologyClientError? { problems.state }

  /// The current ``problem``, then each change.
  public nonisolated var problemDidChange: StatePublisher<TopologyClientError?> {
    problems.eraseToAnyPublisher()
  }

  // MARK: Events

  /// Sends an event after all earlier events, and does not wait for the outcome.
  public nonisolated func post(_ event: Event) {
    sender.post(event) { [problems] in Self.recordResult($0, in: problems) }
  }

  /// Sends an event after all earlier events, and returns its outcome.
  ///
  /// The property ``state`` may change only after the answer has arrived.
  /// - Throws: ``TopologyClientError``; `unknownOutcome` if the node did not answer.
  @discardableResult
  public nonisolated func send(_ event: Event) async throws -> SendOutcome<State> {
    try await outcome(of: answer(to: event))
  }

  /// Sends an event, and returns when the node enters a state that satisfies the predicate.
  ///
  /// The predicate is checked for every state of the event's own step, including intermediate
  /// states, and for every later state. States of earlier steps are ignored, even if they arrive
  /// after the call. If the event is refused, or the topology stops, the call returns at once. If
  /// the task is cancelled, the call returns as if the topology had stopped.
  /// - Throws: ``TopologyClientError``.
  @discardableResult
  public nonisolated func send(
    _ event: Event, resumeWhen isAwaited: @Sendable (State) -> Bool
  ) async throws -> SendOutcome<State> {
    let (outcome, steps) = try await following(event)
    guard case .accepted = outcome else { return outcome }
    while let state = await steps.next() {
      if isAwaited(state) { return .accepted(state) }
    }
    return .finished
  }

  /// Sends an event, and returns when the node enters the same case as `state`. Associated values
  /// are ignored.
  @discardableResult
  public nonisolated func send(
    _ event: Event, resumeWhen state: State
  ) async throws -> SendOutcome<State> {
    let pattern = CasePattern(value: state)
    return try await send(event) { pattern.matches($0) }
  }

  /// Sends an event, and returns when the node enters the case with this constructor, such as
  /// `LiftState.moving`.
  @discardableResult
  public nonisolated func send<each Value>(
    _ event: Event, resumeWhen state: (repeat each Value) -> State
  ) async throws -> SendOutcome<State> {
    let pattern = CasePattern(constructor: state)
    return try await send(event) { pattern.matches($0) }
  }

  /// Sends an event, and returns when the node enters one of several cases.
  @discardableResult
  public nonisolated func send(
    _ event: Event, resumeWhen states: OneOf<State>
  ) async throws -> SendOutcome<State> {
    try await send(event) { states.contains($0) }
  }

  /// Sends an event. Returns the outcome, and the sequence of states that starts with the event's
  /// step.
  nonisolated func following(
    _ event: Event
  ) async throws -> (outcome: SendOutcome<State>, steps: RemoteSteps<State>) {
    let steps = RemoteSteps(feed.states.makeAsyncIterator(), isDurable: isDurable)
    let answer = try await answer(to: event)
    if case .accepted(let version, _) = answer {
      steps.awaitStep(from: version, after: feed.current.incarnation)
    }
    return (try await outcome(of: answer), steps)
  }

  private nonisolated func answer(to event: Event) async throws -> RequestOutcome {
    let result = await withCheckedContinuation { continuation in
      sender.post(event) { continuation.resume(returning: $0) }
    }
    Self.recordResult(result, in: problems)
    return try result.get()
  }

  private nonisolated func outcome(
    of answer: RequestOutcome
  ) async throws -> SendOutcome<State> {
    switch answer {
    case .accepted(let version, .null):
      // The answer was repeated, and no longer contains the state. The feed has this state or a
      // later state.
      guard let state = await feed.state(from: version) else { return .finished }
      return .accepted(state)
    case .accepted(_, let state): return .accepted(try RemoteTypes.decode(state, of: node))
    case .refused(let refusal, _): return .refused(refusal)
    case .done: throw TopologyClientError.failed("received an unexpected answer")
    }
  }

  private static func recordResult(
    _ result: Result<RequestOutcome, any Error>,
    in problems: ConcurrentValueSubject<TopologyClientError?>
  ) {
    switch result {
    case .success: if problems.state != nil { problems.send(nil) }
    case .failure(let error):
      problems.send(error as? TopologyClientError ?? .failed("\(error)"))
    }
  }
}

// Helpers of the initializer.
extension RemoteModel {
  /// Finds the node, and checks that it is running or will soon run, and has the expected types.
  private static func find(
    _ name: String, of client: TopologyClient
  ) async throws -> NodeInformation {
    let directory = try await client.directory()
    let node = try client.instance(name, in: directory)?.node ?? client.node(name, in: directory)
    switch node.kind {
    case .monitor: throw TopologyClientError.otherType(name, "a monitor has no states")
    // The states of composites and constants are checked when they arrive, since such nodes have no
    // description of a machine.
    case .composite, .constant: return node
    case .machine: break
    }
    guard node.isRunning || node.isAboutToRun(in: directory) else {
      throw TopologyClientError.nodeDown(name, node.reason ?? node.phase)
    }
    let types = RemoteTypes(states: State.self, events: Event.self)
    if let problem = types.problem(with: try await client.describe(name)) {
      throw TopologyClientError.otherType(name, problem)
    }
    return node
  }

  /// Returns the current state of the node.
  private static func currentState(
    of stream: StateStream, _ name: String, of client: TopologyClient
  ) async throws -> StateChange {
    let found = try await withTimeout(client.answerTimeout) { () -> StateChange? in
      var changes = stream.makeAsyncIterator()
      return await changes.next()
    }
    if let found {
      guard let change = found else { throw TopologyClientError.orchestratorGone(client.topology) }
      return change
    }
    let directory = try await client.directory()
    let node = try client.instance(name, in: directory)?.node ?? client.node(name, in: directory)
    guard node.isRunning else {
      throw TopologyClientError.nodeDown(name, node.reason ?? node.phase)
    }
    throw TopologyClientError.timedOut("waiting for the state of node '\(name)'")
  }
}

extension ViewState where Output == Never {
  /// Creates a model that shows the state of a remote node.
  ///
  /// If an event does not reach the node, the event counts as refused, and the refusal contains the
  /// reason. If the topology has ended, the outcome of the event is `finished`.
  public convenience init(
    _ model: RemoteModel<State, Event>
  ) where State: MachineState & StateProtocol, Event: MachineEvent {
    self.init(
      showing: model.state,
      of: ViewSource(
        states: {
          var states = model.stateDidChange.makeAsyncIterator()
          return { await states.next(isolation: MainActor.shared) }
        },
        transmit: { event in
          do { return try await model.send(event) } catch { return Self.outcome(of: error) }
        },
        transmitFollowing: { event in
          do {
            let (outcome, steps) = try await model.following(event)
            return (outcome, { await steps.next(isolation: MainActor.shared) })
          } catch {
            return (Self.outcome(of: error), { nil })
          }
        }))
  }

  private static func outcome(of error: any Error) -> SendOutcome<State> {
    switch error as? TopologyClientError {
    case .closed, .orchestratorGone, .notRunning, .noneRunning, .orphaned: .finished
    default: .refused(.thrown("\(error)"))
    }
  }
}

/// Sends events to a node one by one, in the order of the calls. Events that are waiting are still
/// sent after the sender is released.
final class RemoteSender<Event: MachineEvent>: Sendable {
  typealias Answer = @Sendable (Result<RequestOutcome, any Error>) -> Void

  private let posts: AsyncStream<(event: Event, answer: Answer)>.Continuation

  init(_ send: @escaping @Sendable (Event) async throws -> RequestOutcome) {
    let (stream, posts) = AsyncStream.makeStream(of: (event: Event, answer: Answer).self)
    self.posts = posts
    Task {
      for await (event, answer) in stream {
        do { answer(.success(try await send(event))) } catch { answer(.failure(error)) }
      }
    }
  }

  deinit { posts.finish() }

  /// Sends an event after all earlier events.
  /// - Parameter answer: Called once with the result.
  func post(_ event: Event, answer: @escaping Answer) { posts.yield((event, answer)) }
}

/// The state and event types of a remote model, to compare them with the types of a machine.
struct RemoteTypes {
  private let stateType: String
  private let stateCases: [CaseDescription]
  private let eventType: String
  private let eventCases: [CaseDescription]

  init<State: MachineState, Event: MachineEvent>(states: State.Type, events: Event.Type) {
    stateType = TypeName.of(State.self)
    self.stateCases = EnumCases<State>.descriptions
    eventType = TypeName.of(Event.self)
    self.eventCases = EnumCases<Event>.descriptions
  }

  /// Returns the reason why a machine does not fit these types; `nil` if it fits. The state type
  /// may have cases that the machine does not have, and the event type may omit events of the
  /// machine. The fields of struct states are not compared here: such states are checked when they
  /// arrive.
  func problem(with machine: MachineDescription) -> String? {
    if stateCases.isEmpty != machine.states.isEmpty {
      return "the node's states are not of type '\(stateType)': "
        + (stateCases.isEmpty ? "they are cases of an enum" : "they are structs")
    }
    for own in machine.states {
      if let difference = Self.difference(of: own, from: stateCases, of: stateType) {
        return "machine '\(machine.machine)' has the state \(own.wording), \(difference)"
      }
    }
    for own in eventCases {
      if let difference = Self.difference(
        of: own, from: machine.events, of: "machine '\(machine.machine)'")
      {
        return "'\(eventType)' has the event \(own.wording), \(difference)"
      }
    }
    return nil
  }

  private static func difference(
    of own: CaseDescription, from others: [CaseDescription], of holder: String
  ) -> String? {
    guard let other = others.first(where: { $0.name == own.name }) else {
      return "which \(holder) does not have" + Suggestion.among(others.map(\.name), like: own.name)
    }
    return other.fields == own.fields ? nil : "which \(holder) has as \(other.wording)"
  }

  /// Decodes a state that a node has reported.
  static func decode<State: MachineState>(
    _ state: JSONValue, of node: String
  ) throws(TopologyClientError) -> State {
    do { return try EventCodec<State>().decode(state.bytes) } catch {
      throw .otherType(
        node,
        "the node's state is not of type '\(TypeName.of(State.self))': "
          + "\(error)")
    }
  }
}
