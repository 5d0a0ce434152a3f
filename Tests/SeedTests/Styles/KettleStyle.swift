import Kettles
import PipeRuntime
import Testing

/// The kettle in one of the styles, driven in the same way in each.
struct KettleStyle: CustomTestStringConvertible, Sendable {
  let testDescription: String
  /// Makes a kettle, which goes by the clock of effects of the caller.
  let make: @Sendable (KettleParameters) throws -> any Kettle

  static let all: [KettleStyle] = [
    KettleStyle(testDescription: "machine language") { parameters in
      RunningKettle(KettleMachine.self, parameters, on: .switchOn, off: .switchOff) { $0 }
    },
    KettleStyle(testDescription: "reduce and feedback") { parameters in
      RunningKettle(KettleReducer.self, parameters, on: .switchOn, off: .switchOff) { $0 }
    },
    KettleStyle(testDescription: "model actor") { parameters in
      ModelKettle(model: try KettleModel(startsWith: .off, parameters))
    },
    KettleStyle(testDescription: "feature") { parameters in
      RunningKettle(KettleNode.self, parameters, on: .switchOn, off: .switchOff) { $0 }
    },
    KettleStyle(testDescription: "loadable") { parameters in
      RunningKettle(KettleLoader.self, parameters, on: .onAppear, off: .onDisappear) { state in
        switch state {
        case .start, .failedLoaded: .off
        case .loading: .heating
        case .loaded: .hot
        }
      }
    },
  ]
}

/// A kettle, however it is written.
protocol Kettle: Sendable {
  var state: KettleState { get }
  var states: StatePublisher<KettleState> { get }
  /// Both return when the event has been taken, or left.
  func switchOn() async
  func switchOff() async
  /// The same without waiting, in the order called.
  func post(on: Bool)
}

/// A kettle that is a machine.
private struct RunningKettle<Hosted: Machine>: Kettle {
  private let sequence: AsyncStateMachineSequence<Hosted.State, Hosted.Event, Hosted.Output>
  private let subject: ConcurrentValueSubject<KettleState>
  let on, off: Hosted.Event

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
  }

  var state: KettleState { subject.state }
  var states: StatePublisher<KettleState> { subject.eraseToAnyPublisher() }

  func switchOn() async { await sequence.send(on) }
  func switchOff() async { await sequence.send(off) }
  func post(on isOn: Bool) { sequence.post(isOn ? on : off) }
}

/// A kettle that is an actor.
private struct ModelKettle: Kettle {
  let model: KettleModel

  var state: KettleState { model.state }
  var states: StatePublisher<KettleState> { model.stateDidChange }
  func switchOn() async { await model.take(.switchOn) }
  func switchOff() async { await model.take(.switchOff) }
  func post(on: Bool) { on ? model.switchOn() : model.switchOff() }
}
