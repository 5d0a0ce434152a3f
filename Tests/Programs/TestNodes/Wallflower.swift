import PipeRuntime

/// How often a feature and a machine have danced.
package struct Dances: MachineState, Equatable {
  package var danced = 0
  package init(danced: Int = 0) { self.danced = danced }
}

/// Dances by a function that takes its time, and acts on nothing but its state.
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

/// Dances by a transition of the machine language that takes its time.
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
