import PipeMachines
import PipeWire

/// Answers requests for single steps of one node.
protocol AnyNodeStepEvaluator {
  func open() throws -> EvaluatorOpening
  func answer(_ input: EvaluatorInput, in configuration: EvaluatorConfiguration) throws
    -> EvaluatorAnswer
}

/// Computes the single steps of a node that hosts a machine, with the machine's engine, its ports
/// and the rules of its pipes.
final class NodeStepEvaluator<Hosted: Machine>: AnyNodeStepEvaluator, PortBinder {
  private let machine: StateMachine<Hosted.State, Hosted.Event, Hosted.Output>
  private let evaluator: StepEvaluator<Hosted.State, Hosted.Event, Hosted.Output>
  private let sends: EvaluatedSends
  private let pipesByPort: [String: [String]]
  private let events = EventCodec<Hosted.Event>()
  private let states = EventCodec<Hosted.State>()

  init(_: Hosted.Type, parameters: JSONValue, outs: [EvaluatorOutPipe]) throws {
    let parameters = try Hosted.Parameters(parameters: parameters)
    let ports = Ports()
    machine = Hosted.stateMachine(parameters).refusing(by: StateMeter(isExact: true))
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
    let (sends, states) = (EvaluatedSends(), states)
    self.sends = sends
    evaluator = StepEvaluator(machine, runtime) { state in
      let tag = EnumCases<Hosted.State>.tag(of: state)
      for (rule, pipe) in rules where rule.tag == tag {
        sends.append(rule.event { (try? states.encode(state)) ?? [] }, to: pipe)
      }
    }
    ports.bind(with: self)
  }

  func bind<Carried: MachineEvent>(_ pipe: EventPipe<Carried>) {
    pipe.bind(to: EvaluatorOutlet(pipe, pipes: pipesByPort[pipe.name ?? ""] ?? [], sends: sends))
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
      configuration: try encoded(first), sends: try sends.take(),
      effects: evaluator.effects.map { .init(name: $0.name, isSequence: $0.isSequence) },
      events: fields)
  }

  func answer(
    _ input: EvaluatorInput, in configuration: EvaluatorConfiguration
  ) throws -> EvaluatorAnswer {
    let start = StepEvaluator<Hosted.State, Hosted.Event, Hosted.Output>.Configuration(
      state: try states.decode(configuration.state.bytes), effects: configuration.effects)
    let answer: StepEvaluator<Hosted.State, Hosted.Event, Hosted.Output>.Answer?
    do {
      switch input {
      case .take(let event): answer = evaluator.take(try decode(event), in: start)
      case .give(let effect, let event):
        answer = evaluator.take(try decode(event), of: effect, in: start)
      case .end(let effect): answer = evaluator.end(effect, in: start).map { .accepted($0) }
      }
    } catch let error as UndecodableValue {
      return .undecodable(error: "\(error)")
    }
    switch answer {
    case .accepted(let next):
      return .accepted(configuration: try encoded(next), sends: try sends.take())
    case .refused(let refusal, let next):
      return .refused(reason: refusal, configuration: try encoded(next))
    case .asynchronous: return .undecided(reason: "the transition is asynchronous")
    case nil: return .invalid(error: "no such effect is running")
    }
  }

  private func decode(_ event: JSONValue) throws -> Hosted.Event { try events.decode(event.bytes) }

  private func encoded(
    _ configuration: StepEvaluator<Hosted.State, Hosted.Event, Hosted.Output>.Configuration
  ) throws -> EvaluatorConfiguration {
    EvaluatorConfiguration(
      state: try JSONValue(parsing: states.encode(configuration.state)),
      effects: configuration.effects)
  }
}

/// The events that the current step sends.
// Unchecked: an oracle has one thread.
private final class EvaluatedSends: @unchecked Sendable {
  private var sent: [(pipe: String, event: [UInt8])] = []

  func append(_ event: [UInt8], to pipe: String) { sent.append((pipe, event)) }

  func take() throws -> [EvaluatorSend] {
    defer { sent = [] }
    return try sent.map { EvaluatorSend(pipe: $0.pipe, event: try JSONValue(parsing: $0.event)) }
  }
}

/// Collects the events that a machine sends through a port.
private final class EvaluatorOutlet<Event: MachineEvent>: PipeOutlet {
  private let pipes: [String]
  private let sends: EvaluatedSends
  private let encode: @Sendable (Event, inout [UInt8]) throws -> Void

  init(_ port: EventPipe<Event>, pipes: [String], sends: EvaluatedSends) {
    self.pipes = pipes
    self.sends = sends
    // Only the oracle's one thread uses the codec.
    nonisolated(unsafe) let codec = EventCodec<Event>()
    encode = port.encode ?? { try codec.encode($0, into: &$1) }
  }

  var isFull: Bool { false }

  func enqueue(_ event: Event) {
    guard !pipes.isEmpty else { return }
    var bytes: [UInt8] = []
    // As in a node, an event that cannot be encoded is not sent.
    guard (try? encode(event, &bytes)) != nil else { return }
    for pipe in pipes { sends.append(bytes, to: pipe) }
  }
}
