import PipeRuntime
import Screens

/// A service with one quiz of three questions. It fails if a failure is set.
struct StubQuizes: QuizService {
  var failure: LoadFailure?

  static let quiz = Quiz(id: 1, title: "Numbers", questions: (1...3).map(question))

  static func question(_ id: Int) -> Question {
    Question(
      id: id, text: "What is \(id)?",
      answers: (1...4).map { Question.Answer(id: $0, text: "\($0)") }, timeLimit: 10 * id)
  }

  /// Returns the state in which a question of the quiz is asked, after these answers.
  static func asking(_ number: Int, after answers: [Int?]) -> QuizScreen.State {
    let given = answers.enumerated().map { GivenAnswer(questionId: $0 + 1, answerId: $1) }
    return .question(
      number: number, count: 3, question: question(number),
      attempt: QuizScreen.Attempt(
        sheet: AnswerSheet(quiz: 1, title: "Numbers", answers: given),
        next: Array(quiz.questions.dropFirst(number))))
  }

  func fetchQuizes() async throws -> [Quiz] {
    if let failure { throw failure }
    return [Self.quiz]
  }

  /// Counts the correct answers. The correct answer to each question is the question's own number.
  func score(_ sheet: AnswerSheet) async throws -> QuizScore {
    if let failure { throw failure }
    return QuizScore(
      title: sheet.title, right: sheet.answers.count { $0.questionId == $0.answerId },
      questions: 3)
  }

  /// A registry that contains this service.
  var services: Services {
    var services = Services()
    services.register((any QuizService).self) { self }
    return services
  }
}
