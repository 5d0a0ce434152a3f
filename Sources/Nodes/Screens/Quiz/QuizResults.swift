import PipeRuntime

/// Receives answer sheets, compares them with the right answers, and sends the score.
package enum QuizResults: Machine {
  package enum State: MachineState, Hashable {
    case waiting
    case scoring(AnswerSheet)
    case scored(QuizScore)
    case failed(message: String)
  }

  package enum Event: MachineEvent, Hashable {
    case answers(AnswerSheet)
    case didScore(QuizScore)
    case didFail(LoadFailure)
  }

  package static func reduce(_ state: State, _ event: Event) -> Reduction<State> {
    switch (state, event) {
    case (.waiting, .answers(let sheet)), (.scored, .answers(let sheet)),
      (.failed, .answers(let sheet)):
      .next(.scoring(sheet))
    case (.scoring, .didScore(let score)): .next(.scored(score))
    case (.scoring, .didFail(let failure)): .next(.failed(message: failure.description))
    case (.waiting, _), (.scoring, _), (.scored, _), (.failed, _): .refused(.noTransition)
    }
  }

  package static func stateMachine(
    _ parameters: QuizParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: .waiting, reduce: reduce)
  }

  package static func runtime(
    _ parameters: QuizParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    let service = parameters.service
    let confirmations: EventPipe<QuizScreen.Event> = ports.pipe("confirmations")
    return Runtime()
      .feedback(
        Feedback(
          lensing: { (state: State) -> AnswerSheet? in
            if case .scoring(let sheet) = state { sheet } else { nil }
          },
          gives: .oneOf {
            Event.didScore
            Event.didFail
          }
        ) { sheet in
          do {
            return Event.didScore(try await service.score(sheet))
          } catch {
            return Event.didFail(LoadFailure(error))
          }
        }
      )
      .connectAsReceiver(to: ports.pipe("answers"))
      .connectAsSender(
        to: confirmations, when: State.scored, send: QuizScreen.Event.quizAnswersSendingCompleted
      )
      .connectAsSender(
        to: confirmations, when: State.failed(message:), send: QuizScreen.Event.error(message:))
  }
}

/// A view of the result of the last quiz.
package enum ResultsView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 40, rows: 3)

  package static func body(_ state: QuizResults.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .waiting: [StyledLine("No quiz has been played yet", .dim)]
    case .scoring(let sheet):
      [StyledLine(sheet.title, .bold), StyledLine("Counting the answers…", .dim)]
    case .scored(let score):
      [
        StyledLine(score.title, .bold),
        StyledLine("\(score.right) of \(score.questions) answers are right", .color(.green)),
      ]
    case .failed(let message):
      [StyledLine("The answers could not be counted", .bold, .color(.red)), StyledLine(message)]
    }
  }
}
