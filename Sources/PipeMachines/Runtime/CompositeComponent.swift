/// A machine that a composite runs: its name, its behaviour, its effects and pipes.
public struct CompositeComponent<State: MachineState, Event: MachineEvent>: Sendable {
  /// The name, by which composites refer to it.
  public let name: String
  let erased: AnyCompositeComponent

  /// Names a machine.
  public init<Output>(
    _ name: String, stateMachine: StateMachine<State, Event, Output>,
    runtime: Runtime<State, Event, Output> = Runtime()
  ) {
    self.name = name
    erased = AnyCompositeComponent(
      component: AnyComponent(Component(name, machine: stateMachine)),
      makeHost: { run, place, synchronized in
        MachineHost(
          name: name, place: place, machine: stateMachine, runtime: runtime,
          synchronized: synchronized, run: run)
      })
  }
}

/// A machine that a composite runs, whose types are not known where it is used.
public struct AnyCompositeComponent: Sendable {
  let component: AnyComponent
  let makeHost: @Sendable (CompositeRun, Int, _ synchronized: Set<String>) -> any ComponentHost

  init(
    component: AnyComponent,
    makeHost: @escaping @Sendable (CompositeRun, Int, Set<String>) -> any ComponentHost
  ) {
    self.component = component
    self.makeHost = makeHost
  }

  /// Forgets the types of a component.
  public init<State, Event>(_ component: CompositeComponent<State, Event>) {
    self = component.erased
  }
}
