import Kettles
import PipeRuntime
import Testing

/// A style in which the kettle is written.
package struct KettleStyle: CustomTestStringConvertible, Sendable {
  package let testDescription: String
  /// Creates a kettle in this process. The kettle uses the effect clock of the caller.
  package let make: @Sendable (KettleParameters) throws -> any Kettle
  /// The name of the machine that a node runs.
  package let machine: String
  /// Creates a proxy for a kettle that runs as a node.
  package let follow: @Sendable (_ node: String, TopologyClient) async throws -> any Kettle

  /// All styles. Styles that differ only inside of a process share a machine.
  package static let all: [KettleStyle] = [
    style("machine language", KettleMachine.self, on: .switchOn, off: .switchOff) { $0 },
    style("reduce and feedback", KettleReducer.self, on: .switchOn, off: .switchOff) { $0 },
    KettleStyle(
      testDescription: "model actor",
      make: { ModelKettle(model: try KettleModel(startsWith: .off, $0)) },
      machine: hostedModel.machine, follow: hostedModel.follow),
    hostedModel,
    style("feature", KettleNode.self, on: .switchOn, off: .switchOff) { $0 },
    style("loadable", KettleLoader.self, on: .onAppear, off: .onDisappear) { state in
      switch state {
      case .start, .failedLoaded: .off
      case .loading: .heating
      case .loaded: .hot
      }
    },
  ]

  /// The styles that run as nodes: one style for each machine.
  package static let hosted = all.filter { $0.testDescription != "model actor" }

  private static let hostedModel = style(
    "model as a machine", ModelMachine<KettleModel>.self, on: .switchOn, off: .switchOff
  ) { $0 }

  private static func style<Hosted: Machine>(
    _ name: String, _: Hosted.Type, on: Hosted.Event, off: Hosted.Event,
    project: @escaping @Sendable (Hosted.State) -> KettleState
  ) -> KettleStyle
  where Hosted.Parameters == KettleParameters, Hosted.State: StateProtocol {
    KettleStyle(
      testDescription: name,
      make: { RunningKettle(Hosted.self, $0, on: on, off: off, project: project) },
      machine: Hosted.name,
      follow: { node, client in
        RemoteKettle(
          model: try await RemoteModel<Hosted.State, Hosted.Event>(node, of: client),
          client: client, on: on, off: off, project: project)
      })
  }
}

/// A kettle that runs as a machine in this process.
private struct RunningKettle<Hosted: Machine>: Kettle {
  private let sequence: AsyncStateMachineSequence<Hosted.State, Hosted.Event, Hosted.Output>
  private let subject: ConcurrentValueSubject<KettleState>
  let on, off: Hosted.Event
  let project: @Sendable (Hosted.State) -> KettleState

  init(
    _: Hosted.Type, _ parameters: Hosted.Parameters, on: Hosted.Event, off: Hosted.Event,
    project: @escaping @Sendable (Hosted.State) -> KettleState
  ) {
    let machine = Hosted.stateMachine(parameters)
    let subject = ConcurrentValueSubject(project(machine.initial))
    self.subject = subject
    sequence = AsyncStateMachineSequence(
      stateMachine: machine,
      runtime: Hosted.runtime(parameters, Ports())
        .register(middleware: { (state: Hosted.State) in subject.send(project(state)) }))
    self.on = on
    self.off = off
    self.project = project
  }

  var states: StatePublisher<KettleState> { subject.eraseToAnyPublisher() }

  func switchOn() async -> KettleState { await send(on) }
  func switchOff() async -> KettleState { await send(off) }
  func post(on isOn: Bool) { sequence.post(isOn ? on : off) }

  private func send(_ event: Hosted.Event) async -> KettleState {
    if case .accepted(let state) = await sequence.send(event) { return project(state) }
    return subject.state
  }
}

/// A kettle that runs as an actor in this process.
private struct ModelKettle: Kettle {
  let model: KettleModel

  var states: StatePublisher<KettleState> { model.stateDidChange }
  func switchOn() async -> KettleState { await take(.switchOn) }
  func switchOff() async -> KettleState { await take(.switchOff) }
  func post(on: Bool) { on ? model.switchOn() : model.switchOff() }

  private func take(_ event: KettleEvent) async -> KettleState {
    await model.take(event)
    return model.state
  }
}

/// A proxy for a kettle that runs as a node.
private struct RemoteKettle<State: MachineState & StateProtocol, Event: MachineEvent>: Kettle {
  let model: RemoteModel<State, Event>
  let client: TopologyClient
  let on, off: Event
  let project: @Sendable (State) -> KettleState

  var states: StatePublisher<KettleState> { model.stateDidChange.projected(project) }
  func switchOn() async throws -> KettleState { try await send(on) }
  func switchOff() async throws -> KettleState { try await send(off) }
  func post(on isOn: Bool) { model.post(isOn ? on : off) }

  private func send(_ event: Event) async throws -> KettleState {
    if case .accepted(let state) = try await model.send(event) { return project(state) }
    // Query the node, because the proxy's state may be older.
    let status = try await client.directory()[node: model.node]?.status
    return project(try EventCodec<State>().decode(status?.state?.bytes ?? []))
  }
}
