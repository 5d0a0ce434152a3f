import PipeRuntime

/// The screen of a quiz. It asks one question after another, each with a time limit, and then shows
/// the results.
package enum QuizScreen: Machine {
  package enum State: MachineState, Hashable {
    /// The quiz with this id is about to be fetched; `nil` if no quiz is selected.
    case start(quiz: Int?)
    case loading(quiz: Int)
    /// The user is answering the question with this number, counted from 1. `attempt` contains the
    /// answers so far and the remaining questions.
    case question(number: Int, count: Int, question: Question, attempt: Attempt)
    case noQuestionsLeft(AnswerSheet)
    case quizAnswersSending(AnswerSheet)
    /// The score has arrived, and the results can be shown.
    case quizAnswersSended(QuizScore)
    case results(QuizScore)
    case error(message: String)
  }

  /// The answers given so far, and the remaining questions.
  package struct Attempt: Codable, Hashable, Sendable {
    package var sheet: AnswerSheet
    package var next: [Question]

    package init(sheet: AnswerSheet, next: [Question]) {
      self.sheet = sheet
      self.next = next
    }

    /// Returns the state that asks the next question or, if no questions are left, the state
    /// `noQuestionsLeft`.
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

  /// Returns the next state. The machine refuses an event that leaves the state unchanged.
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

extension QuizScreen {
  package static func runtime(
    _ parameters: QuizParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime()
      .feedback(starting)
      .feedback(fetching(parameters))
      .feedback(timing(parameters))
      .feedback(ending)
      .connectAsSender(
        to: ports.pipe("answers"), when: State.quizAnswersSending, send: QuizResults.Event.answers
      )
      .connectAsReceiver(to: ports.pipe("selections"))
      .connectAsReceiver(to: ports.pipe("confirmations"))
  }

  private static var starting: Feedback<State, Event> {
    Feedback(
      lensing: { (state: State) -> Int? in
        if case .start(let quiz?) = state { quiz } else { nil }
      }, gives: .oneOf { Event.quizFetchingStarted }
    ) { _ in Event.quizFetchingStarted }
  }

  private static func fetching(_ parameters: QuizParameters) -> Feedback<State, Event> {
    let service = parameters.service
    return Feedback(
      lensing: { (state: State) -> Int? in
        if case .loading(let quiz) = state { quiz } else { nil }
      },
      gives: .oneOf {
        Event.quizFetchingCompleted
        Event.error(message:)
      }
    ) { quiz in
      do {
        return Event.quizFetchingCompleted(try await service.fetchQuiz(quiz))
      } catch {
        return Event.error(message: "\(error)")
      }
    }
  }

  /// The time limit of a question. Each question has its own timer.
  private struct Timer: Hashable, Sendable {
    var number: Int
    var questionId: Int
    /// The length of the time limit. Unit: seconds.
    var limit: Int
  }

  private static func timing(_ parameters: QuizParameters) -> Feedback<State, Event> {
    let second = Duration.milliseconds(parameters.second)
    return Feedback(
      lensing: { (state: State) -> Timer? in
        guard case .question(let number, _, let question, _) = state else { return nil }
        return Timer(number: number, questionId: question.id, limit: question.timeLimit)
      }, gives: .oneOfOrNothing { Event.questionTimeLimitExceeded(questionId:) }
    ) { timer in
      do { try await EffectClock.sleep(for: second * timer.limit) } catch { return nil }
      return Event.questionTimeLimitExceeded(questionId: timer.questionId)
    }
  }

  private static var ending: Feedback<State, Event> {
    Feedback(
      when: { (state: State) in
        if case .noQuestionsLeft = state { true } else { false }
      }, gives: .oneOf { Event.quizAnswersSendingStarted }
    ) { _ in Event.quizAnswersSendingStarted }
  }
}

/// A view of a quiz. The keys 1 to 4 select an answer, and r shows the results. When the view
/// closes, the user leaves the quiz.
package enum QuizView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 40, rows: 9)

  package static func body(_ state: QuizScreen.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .start: [StyledLine("No quiz selected", .dim)]
    case .loading(let quiz): [StyledLine("Loading quiz \(quiz)…", .dim)]
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
      [StyledLine("Sending the answers…", .dim)]
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
      [StyledLine("The quiz failed", .bold, .color(.red)), StyledLine(message)]
    }
  }

  package static func onDisappear(_ state: QuizScreen.State) -> QuizScreen.Event? {
    state == .start(quiz: nil) ? nil : .onDisappear
  }

  package static func event(for key: Key, in state: QuizScreen.State) -> QuizScreen.Event? {
    switch (state, key) {
    case (.question(_, _, let question, _), .character(let digit)):
      guard let number = digit.wholeNumberValue, question.answers.indices.contains(number - 1)
      else {
        return nil
      }
      return .questionAnswered(questionId: question.id, answerId: question.answers[number - 1].id)
    case (.quizAnswersSended, .character("r")), (.quizAnswersSended, .enter): return .onResults
    case (_, .escape): return .onDisappear
    default: return nil
    }
  }
}
