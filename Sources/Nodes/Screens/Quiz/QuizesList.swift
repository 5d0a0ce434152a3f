import PipeRuntime

/// The list of quizzes, of which one can be chosen.
package enum QuizesList: Machine {
  package enum State: MachineState, Hashable {
    case start
    case loading
    case loaded(quizes: [QuizTitle])
    case error(message: String)
  }

  package enum Event: MachineEvent, Hashable {
    case onAppear
    case onQuizesLoaded([QuizTitle])
    /// By its id.
    case onQuizSelect(Int)
    case onFailedToLoadQuizes(LoadFailure)
  }

  package static func reduce(_ state: State, _ event: Event) -> Reduction<State> {
    switch (state, event) {
    case (.start, .onAppear), (.error, .onAppear): .next(.loading)
    case (.loading, .onQuizesLoaded(let quizes)): .next(.loaded(quizes: quizes))
    case (.loading, .onFailedToLoadQuizes(let failure)):
      .next(.error(message: failure.description))
    // The list stays as it is; the screen of the quiz is told.
    case (.loaded(let quizes), .onQuizSelect(let id)):
      quizes.contains { $0.id == id } ? .next(state) : .refused(.guard)
    case (.start, _), (.loading, _), (.loaded, _), (.error, _): .refused(.noTransition)
    }
  }

  package static func stateMachine(
    _ parameters: QuizParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: .start, reduce: reduce)
  }

  package static func runtime(
    _ parameters: QuizParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    let service = parameters.service
    return Runtime()
      .feedback(
        Feedback(
          when: { $0 == .loading },
          gives: .oneOf {
            Event.onQuizesLoaded
            Event.onFailedToLoadQuizes
          }
        ) { _ in
          do {
            return Event.onQuizesLoaded(try await service.fetchQuizes().map(QuizTitle.init))
          } catch {
            return Event.onFailedToLoadQuizes(LoadFailure(error))
          }
        }
      )
      .connectAsSender(
        to: ports.pipe("selections"),
        forEachEvent: { event in
          if case .onQuizSelect(let id) = event { QuizScreen.Event.onAppear(quiz: id) } else { nil }
        })
  }
}
