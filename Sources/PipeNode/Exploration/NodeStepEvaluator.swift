import PipeMachines
import PipeSupport
import PipeWire

/// Computes single steps of a node on request.
protocol AnyNodeStepEvaluator {
  func open() throws -> EvaluatorOpening
  func answer(_ input: EvaluatorInput, in configuration: EvaluatorConfiguration) throws
    -> EvaluatorAnswer
  /// Replays the steps of a step log, and compares the results with the log.
  /// - Parameter announce: Called with the number of a line that is about to be read. Returns
  ///   `false` if the report is not required any more.
  func replay(_ request: EvaluatorReplay, announce: (Int) -> Bool) throws -> EvaluatorReplayReport
}

/// Computes single steps of a node that hosts a machine. An answer includes the events that the
/// step sends: the events from the machine's ports, and the events from pipes with a rule for the
/// entered state.
final class NodeStepEvaluator<Hosted: Machine>: AnyNodeStepEvaluator, PortBinder {
  private let machine: StateMachine<Hosted.State, Hosted.Event, Hosted.Output>
  private let evaluator: StepEvaluator<Hosted.State, Hosted.Event, Hosted.Output>
  private let sentEvents: SentEvents
  /// Whether the evaluator computes the steps of one instance of a keyed node.
  private let isInstance: Bool
  private let pipesByPort: [String: [String]]
  private let eventCodec = EventCodec<Hosted.Event>(
    isSynthesized: Hosted.Event._isSynthesizedCodable)
  private let stateCodec = EventCodec<Hosted.State>(
    isSynthesized: Hosted.State._isSynthesizedCodable)

  init(
    _: Hosted.Type, parameters: JSONValue, outs: [EvaluatorOutPipe], instance: EvaluatorInstance?
  ) throws {
    let key = try instance.map { try InstanceKey($0.key) }
    let parameters = try Self.parameters(parameters, of: key, in: instance?.field ?? "")
    let ports = Ports()
    isInstance = instance != nil
    machine = Hosted.stateMachine(parameters).refusing(by: StateMeter(isExact: true))
      .ending(in: try KeyedMachine<Hosted>.finalTags(instance?.final ?? []))
    let runtime = Hosted.runtime(parameters, ports)
    let description = try Hosted.describe(machine: machine, runtime: runtime, ports: ports)
    if let problem = description.error { throw NodeSetupError(problem) }
    let rules = try outs.compactMap { out in
      try out.rule.map {
        (rule: try StateRule($0, pipe: out.name, states: description.states), pipe: out.name)
      }
    }
    pipesByPort = Dictionary(
      grouping: outs.compactMap { out in out.port.map { (port: $0, pipe: out.name) } }, by: \.port
    ).mapValues { $0.map(\.pipe) }
    if let unknown = pipesByPort.keys.first(where: { !ports.names.contains($0) }) {
      throw NodeSetupError("machine '\(Hosted.name)' has no port '\(unknown)'")
    }
    let (sentEvents, states) = (SentEvents(), stateCodec)
    self.sentEvents = sentEvents
    evaluator = StepEvaluator(machine, runtime) { state in
      let tag = EnumCases<Hosted.State>.tag(of: state)
      for (rule, pipe) in rules where rule.stateTag == tag {
        sentEvents.append(rule.event(of: key) { (try? states.encode(state)) ?? [] }, to: pipe)
      }
    }
    ports.bind(with: self)
  }

  /// Returns the parameters of the machine. If the machine has a parameter with the name `field`,
  /// the value of this parameter is the key.
  private static func parameters(
    _ given: JSONValue, of key: InstanceKey?, in field: String
  ) throws -> Hosted.Parameters {
    let given = Hosted.migrated(parameters: given)
    guard let key, let own = InstanceParameters<Hosted.Parameters>(given, key: field) else {
      return try Hosted.Parameters(parameters: given)
    }
    guard let parameters = own.parameters(of: key) else {
      throw NodeSetupError("the machine does not accept the key '\(key)' as a parameter")
    }
    return parameters
  }

  func bind<Carried: MachineEvent>(_ pipe: EventPipe<Carried>) {
    pipe.bind(
      to: EvaluatorOutlet(pipe, pipes: pipesByPort[pipe.name ?? ""] ?? [], sentEvents: sentEvents))
  }

  func open() throws -> EvaluatorOpening {
    let first = evaluator.start()
    var fields: [String: [EvaluatorOpening.Field]] = [:]
    for event in machine.events where machine.alphabet.contains(event.name) {
      let values = PayloadValues.fields(of: Hosted.Event.self, case: event.name)
      fields[event.name] = zip(event.fields, values).map {
        .init(name: $0.name, values: $1.values, isComplete: $1.isComplete)
      }
    }
    return EvaluatorOpening(
      configuration: try encoded(first), sends: try sentEvents.removeEvents(),
      effects: evaluator.effects.map { .init(name: $0.name, isSequence: $0.isSequence) },
      hasTimers: evaluator.hasTimers ? true : nil,
      events: fields)
  }

  func answer(
    _ input: EvaluatorInput, in configuration: EvaluatorConfiguration
  ) throws -> EvaluatorAnswer {
    if isInstance, configuration == .notCreated { return try create(by: input) }
    let start = StepEvaluator<Hosted.State, Hosted.Event, Hosted.Output>.Configuration(
      state: try stateCodec.decode(configuration.state.bytes), effects: configuration.effects)
    let answer: StepEvaluator<Hosted.State, Hosted.Event, Hosted.Output>.Answer?
    do {
      switch input {
      case .take(let event): answer = evaluator.evaluate(try decode(event), in: start)
      case .give(let effect, let event):
        answer = evaluator.evaluate(try decode(event), of: effect, in: start)
      case .end(let effect):
        answer = evaluator.endEffect(effect, in: start).map { .accepted($0, .external) }
      case .fire:
        answer = try evaluator.fireTimer(in: start) ?? .refused(.noTransition, start)
      }
    } catch let error as UndecodableValue {
      return .undecodable(error: "\(error)")
    }
    switch answer {
    case .accepted(let next, let kind):
      return .accepted(
        configuration: try encoded(next), sends: try sentEvents.removeEvents(),
        transition: kind == .external ? nil : kind)
    case .refused(let refusal, let next):
      return .refused(reason: refusal, configuration: try encoded(next))
    case .fired(let timer, let next):
      return .fired(
        after: timer.duration.shortText, configuration: try encoded(next),
        sends: try sentEvents.removeEvents())
    case .failed(let reason):
      _ = try sentEvents.removeEvents()
      return .undecided(reason: reason)
    case .asynchronous: return .undecided(reason: "the transition is asynchronous")
    case nil: return .invalid(error: "no such effect is running")
    }
  }

  /// Answers an event for an instance that does not exist yet. The event creates the instance if
  /// the machine's initial state accepts the event.
  private func create(by input: EvaluatorInput) throws -> EvaluatorAnswer {
    if case .fire = input { return .refused(reason: .noTransition, configuration: .notCreated) }
    guard case .take(let event) = input else {
      return .invalid(error: "the instance is not created, and no effect is running")
    }
    let decoded: Hosted.Event
    do { decoded = try decode(event) } catch let error as UndecodableValue {
      return .undecodable(error: "\(error)")
    }
    let answer = evaluator.evaluate(decoded, in: evaluator.start())
    let sent = try sentEvents.removeEvents()
    switch answer {
    case .accepted(_, .ignored):
      return .accepted(configuration: .notCreated, sends: [], transition: .ignored)
    case .accepted(let next, let kind):
      return .accepted(
        configuration: try encoded(next), sends: sent, transition: kind == .external ? nil : kind)
    case .refused(let refusal, _): return .refused(reason: refusal, configuration: .notCreated)
    case .failed(let reason): return .undecided(reason: reason)
    case .asynchronous: return .undecided(reason: "the transition is asynchronous")
    case .fired: return .invalid(error: "the instance is not created, and has no timer")
    }
  }

  func replay(
    _ request: EvaluatorReplay, announce: (Int) -> Bool
  ) throws -> EvaluatorReplayReport {
    let replay = StepLogReplay(
      evaluator, events: eventCodec, states: stateCodec, sentEvents: sentEvents)
    return try replay.run(request, announce: announce)
  }

  private func decode(_ event: JSONValue) throws -> Hosted.Event {
    try eventCodec.decode(event.bytes)
  }

  private func encoded(
    _ configuration: StepEvaluator<Hosted.State, Hosted.Event, Hosted.Output>.Configuration
  ) throws -> EvaluatorConfiguration {
    EvaluatorConfiguration(
      state: try JSONValue(parsing: stateCodec.encode(configuration.state)),
      effects: configuration.effects)
  }
}

/// The events that the current step sends.
// `@unchecked`, because only one thread uses an evaluator.
final class SentEvents: @unchecked Sendable {
  private(set) var events: [(pipe: String, event: [UInt8])] = []

  func append(_ event: [UInt8], to pipe: String) { events.append((pipe, event)) }

  func removeAll() { events.removeAll(keepingCapacity: true) }

  func removeEvents() throws -> [EvaluatorSend] {
    defer { events = [] }
    return try events.map { EvaluatorSend(pipe: $0.pipe, event: try JSONValue(parsing: $0.event)) }
  }
}

/// Collects the events that a machine sends through a port.
private final class EvaluatorOutlet<Event: MachineEvent>: PipeOutlet {
  private let pipes: [String]
  private let sentEvents: SentEvents
  private let encode: @Sendable (Event, inout [UInt8]) throws -> Void

  init(_ port: EventPipe<Event>, pipes: [String], sentEvents: SentEvents) {
    self.pipes = pipes
    self.sentEvents = sentEvents
    // `nonisolated(unsafe)`, because only the evaluator's thread uses the codec.
    nonisolated(unsafe) let codec = EventCodec<Event>()
    encode = port.encode ?? { try codec.encode($0, into: &$1) }
  }

  var isFull: Bool { false }

  func enqueue(_ event: Event) {
    guard !pipes.isEmpty else { return }
    var bytes: [UInt8] = []
    // Like a node, this outlet does not send an event that cannot be encoded.
    guard (try? encode(event, &bytes)) != nil else { return }
    for pipe in pipes { sentEvents.append(bytes, to: pipe) }
  }
}
