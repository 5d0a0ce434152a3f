import Kettles
import PipeRuntime
import Testing

/// One way to write the kettle.
package struct KettleStyle: CustomTestStringConvertible, Sendable {
  package let testDescription: String
  /// Makes a kettle in this process, which goes by the clock of effects of the caller.
  package let make: @Sendable (KettleParameters) throws -> any Kettle

  /// All of them.
  package static let all: [KettleStyle] = [
    style("machine language", KettleMachine.self, on: .switchOn, off: .switchOff) { $0 },
    style("reduce and feedback", KettleReducer.self, on: .switchOn, off: .switchOff) { $0 },
    KettleStyle(
      testDescription: "model actor",
      make: { ModelKettle(model: try KettleModel(startsWith: .off, $0)) }),
    style(
      "model as a machine", ModelMachine<KettleModel>.self, on: .switchOn, off: .switchOff
    ) { $0 },
    style("feature", KettleNode.self, on: .switchOn, off: .switchOff) { $0 },
    style("loadable", KettleLoader.self, on: .onAppear, off: .onDisappear) { state in
      switch state {
      case .start, .failedLoaded: .off
      case .loading: .heating
      case .loaded: .hot
      }
    },
  ]

  private static func style<Hosted: Machine>(
    _ name: String, _: Hosted.Type, on: Hosted.Event, off: Hosted.Event,
    project: @escaping @Sendable (Hosted.State) -> KettleState
  ) -> KettleStyle
  where Hosted.Parameters == KettleParameters {
    KettleStyle(
      testDescription: name,
      make: { RunningKettle(Hosted.self, $0, on: on, off: off, project: project) })
  }
}

/// A kettle that is a machine in this process.
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
    if case .moved(let state) = await sequence.send(event) { return project(state) }
    return subject.state
  }
}

/// A kettle that is an actor in this process.
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
