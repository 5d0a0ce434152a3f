import PipeRuntime

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

  /// The time of a question: another one for each.
  private struct Timer: Hashable, Sendable {
    var number: Int
    var questionId: Int
    /// Unit: seconds.
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
