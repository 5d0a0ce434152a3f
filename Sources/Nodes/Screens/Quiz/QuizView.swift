import PipeRuntime

/// The screen of a quiz on a terminal: 1 to 4 answer, and r shows the results. Who leaves the view
/// leaves the quiz.
package enum QuizView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 40, rows: 9)

  package static func body(_ state: QuizScreen.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .start: [StyledLine("No quiz is shown: choose one", .dim)]
    case .loading(let quiz): [StyledLine("Quiz \(quiz) is being loaded…", .dim)]
    case .question(let number, let count, let question, _):
      [
        StyledLine("Question \(number) of \(count)", .bold)
          + StyledLine("  \(question.timeLimit) s", .dim),
        StyledLine(question.text), "",
      ]
        + question.answers.enumerated().map { index, answer in
          StyledLine("\(index + 1) ", .bold, .color(.cyan)) + StyledLine(answer.text)
        }
    case .noQuestionsLeft, .quizAnswersSending:
      [StyledLine("The answers are being sent…", .dim)]
    case .quizAnswersSended(let score):
      [
        StyledLine(score.title, .bold), "All questions are answered.", "",
        StyledLine("r shows the results", .dim),
      ]
    case .results(let score):
      [
        StyledLine(score.title, .bold),
        StyledLine("\(score.right) of \(score.questions) answers are right", .color(.green)),
      ]
    case .error(let message):
      [StyledLine("It did not work", .bold, .color(.red)), StyledLine(message)]
    }
  }

  package static func onDisappear(_ state: QuizScreen.State) -> QuizScreen.Event? {
    state == .start(quiz: nil) ? nil : .onDisappear
  }

  package static func event(for key: Key, in state: QuizScreen.State) -> QuizScreen.Event? {
    switch (state, key) {
    case (.question(_, _, let question, _), .character(let digit)):
      guard let place = digit.wholeNumberValue, question.answers.indices.contains(place - 1) else {
        return nil
      }
      return .questionAnswered(questionId: question.id, answerId: question.answers[place - 1].id)
    case (.quizAnswersSended, .character("r")), (.quizAnswersSended, .enter): return .onResults
    case (_, .escape): return .onDisappear
    default: return nil
    }
  }
}
