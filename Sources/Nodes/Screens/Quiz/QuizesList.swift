import PipeRuntime

/// The list from which the user chooses a quiz.
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
    /// The user selects the quiz with this id.
    case onQuizSelect(Int)
    case onFailedToLoadQuizes(LoadFailure)
  }

  package static func reduce(_ state: State, _ event: Event) -> Reduction<State> {
    switch (state, event) {
    case (.start, .onAppear), (.error, .onAppear): .next(.loading)
    case (.loading, .onQuizesLoaded(let quizes)): .next(.loaded(quizes: quizes))
    case (.loading, .onFailedToLoadQuizes(let failure)):
      .next(.error(message: failure.description))
    // The list's state does not change: a pipe sends the choice to the quiz screen.
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

/// A view of the list of quizzes. When the view opens, the list is loaded. Enter chooses a quiz.
package enum QuizesView: TerminalView {
  package struct Screen {
    package var state: QuizesList.State
    var list = TerminalList()

    var quizes: [QuizTitle] { if case .loaded(let quizes) = state { quizes } else { [] } }
  }

  package static let minimumSize = TerminalSize(columns: 40, rows: 6)

  package static func screen(of state: QuizesList.State) -> Screen { Screen(state: state) }

  package static func update(
    _ screen: inout Screen, to state: QuizesList.State, size: TerminalSize
  ) { screen.state = state }

  package static func onAppear(_ screen: Screen) -> QuizesList.Event? {
    screen.state == .start ? .onAppear : nil
  }

  package static func body(_ screen: Screen, size: TerminalSize) -> [StyledLine] {
    let title = StyledLine("Quizzes", .bold)
    switch screen.state {
    case .start: return [title]
    case .loading: return [title, StyledLine("Loading…", .dim)]
    case .loaded(let quizes):
      return [title]
        + screen.list.lines(of: quizes.count, height: size.rows - 2) { row in
          StyledLine(quizes[row].title) + StyledLine("  \(quizes[row].questions) questions", .dim)
        }
        + [StyledLine("↑ and ↓ select, Enter chooses", .dim)]
    case .error(let message):
      return [
        title, StyledLine(message, .color(.red)), StyledLine("r tries again", .dim),
      ]
    }
  }

  package static func press(
    _ key: Key, in screen: inout Screen, size: TerminalSize
  ) -> QuizesList.Event? {
    if case .error = screen.state { return key == .character("r") ? .onAppear : nil }
    let quizes = screen.quizes
    if screen.list.press(key, of: quizes.count, height: size.rows - 2) { return nil }
    guard key == .enter, let row = screen.list.selected(of: quizes.count) else { return nil }
    return .onQuizSelect(quizes[row].id)
  }
}
