import PipeRuntime

/// The state of a feature or a machine: the number of its dances.
package struct Dances: MachineState, Equatable {
  package var danced = 0
  package init(danced: Int = 0) { self.danced = danced }
}

/// A feature whose asynchronous function changes only its state.
package struct Wallflower: FeatureType {
  package enum Action: MachineEvent, Hashable {
    case dance(left: Dancer.Manner, right: Dancer.Manner)
  }

  package func reduce(state: Dances, action: Action) async -> Dances {
    await Task.yield()
    return Dances(danced: state.danced + 1)
  }
}

/// The feature as a node.
package enum WallflowerNode: FeatureMachine {
  package static func initialState(_ parameters: NoParameters) -> Dances { Dances() }
  package static func feature(_ parameters: NoParameters) -> Wallflower { Wallflower() }
  package static var selfContained: SelfContainedEvents<Wallflower.Action> {
    .all(within: .seconds(60))
  }
}

/// A machine in the machine language with an asynchronous transition.
package enum Chaperone: Machine {
  package enum State: MachineState, Equatable { case watching(danced: Int) }
  package typealias Event = Wallflower.Action

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.watching(danced: 0)) {
      When(state: State.watching(danced:)) { danced in
        On(event: Event.dance(left:right:)) { _, _ in
          await Task.yield()
          return Transition(to: State.watching(danced: danced + 1))
        }
        .selfContained(within: .seconds(60))
      }
    }
  }
}
