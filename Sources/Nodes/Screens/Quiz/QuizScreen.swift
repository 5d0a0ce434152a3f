import PipeRuntime

/// The screen of a quiz: question after question, each with its time, and then the results.
package enum QuizScreen: Machine {
  package enum State: MachineState, Hashable {
    /// Nothing is shown, or the quiz of this id is about to be fetched.
    case start(quiz: Int?)
    case loading(quiz: Int)
    /// The question of this number, counted from 1, and what is needed to go on.
    case question(number: Int, count: Int, question: Question, attempt: Attempt)
    case noQuestionsLeft(AnswerSheet)
    case quizAnswersSending(AnswerSheet)
    /// The results can be shown.
    case quizAnswersSended(QuizScore)
    case results(QuizScore)
    case error(message: String)
  }

  /// What was answered, and what is still to be asked.
  package struct Attempt: Codable, Hashable, Sendable {
    package var sheet: AnswerSheet
    package var next: [Question]

    package init(sheet: AnswerSheet, next: [Question]) {
      self.sheet = sheet
      self.next = next
    }

    /// The state in which the next question is asked, or there is none.
    func nextState() -> State {
      guard let question = next.first else { return .noQuestionsLeft(sheet) }
      let number = sheet.answers.count + 1
      return .question(
        number: number, count: number + next.count - 1, question: question,
        attempt: Attempt(sheet: sheet, next: Array(next.dropFirst())))
    }

    func answering(_ question: Question, with answerId: Int?) -> State {
      var attempt = self
      attempt.sheet.answers.append(GivenAnswer(questionId: question.id, answerId: answerId))
      return attempt.nextState()
    }
  }

  package enum Event: MachineEvent, Hashable {
    case onAppear(quiz: Int)
    case quizFetchingStarted
    case quizFetchingCompleted(Quiz)
    case questionAnswered(questionId: Int, answerId: Int)
    case questionTimeLimitExceeded(questionId: Int)
    case quizAnswersSendingStarted
    case quizAnswersSendingCompleted(QuizScore)
    case onResults
    case onDisappear
    case error(message: String)
  }

  /// What an event for which nothing changes leads to is refused.
  package static func reduce(_ state: State, _ event: Event) -> State {
    switch (state, event) {
    case (_, .onDisappear): .start(quiz: nil)
    case (.start, .onAppear(let quiz)), (.results, .onAppear(let quiz)),
      (.quizAnswersSended, .onAppear(let quiz)), (.error, .onAppear(let quiz)):
      .start(quiz: quiz)
    case (.start(let quiz?), .quizFetchingStarted): .loading(quiz: quiz)
    case (.loading(quiz: let id), .quizFetchingCompleted(let quiz)) where quiz.id == id:
      Attempt(
        sheet: AnswerSheet(quiz: quiz.id, title: quiz.title), next: quiz.questions
      ).nextState()
    case (.question(_, _, let question, let attempt), .questionAnswered(let id, let answer))
    where id == question.id && question.answers.contains { $0.id == answer }:
      attempt.answering(question, with: answer)
    case (.question(_, _, let question, let attempt), .questionTimeLimitExceeded(let id))
    where id == question.id:
      attempt.answering(question, with: nil)
    case (.noQuestionsLeft(let sheet), .quizAnswersSendingStarted): .quizAnswersSending(sheet)
    case (.quizAnswersSending, .quizAnswersSendingCompleted(let score)):
      .quizAnswersSended(score)
    case (.quizAnswersSended(let score), .onResults): .results(score)
    case (.loading, .error(let message)), (.quizAnswersSending, .error(let message)):
      .error(message: message)
    case (.start, _), (.loading, _), (.question, _), (.noQuestionsLeft, _),
      (.quizAnswersSending, _), (.quizAnswersSended, _), (.results, _), (.error, _):
      state
    }
  }

  package static func stateMachine(
    _ parameters: QuizParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: .start(quiz: nil), reduce: reduce)
  }
}
