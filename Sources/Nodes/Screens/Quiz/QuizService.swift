import PipeRuntime

/// The source of quizzes, which also computes the scores of answer sheets.
package protocol QuizService: Sendable {
  func fetchQuizes() async throws -> [Quiz]
  func score(_ sheet: AnswerSheet) async throws -> QuizScore
}

extension QuizService {
  func fetchQuiz(_ id: Int) async throws -> Quiz {
    let all = try await fetchQuizes()
    guard let quiz = all.first(where: { $0.id == id }) else {
      throw DataFileError(
        "no such quiz \(id); there are " + all.map { "\($0.id)" }.joined(separator: ", "))
    }
    return quiz
  }
}

/// A service that reads quizzes from a file.
package struct FileQuizService: QuizService {
  let file: DataFile
  /// The simulated response time of the service.
  let answerTime: Duration

  package func fetchQuizes() async throws -> [Quiz] {
    try await EffectClock.sleep(for: answerTime)
    let quizes = try file.decode([Quiz].self)
    for quiz in quizes { try check(quiz) }
    return quizes
  }

  package func score(_ sheet: AnswerSheet) async throws -> QuizScore {
    struct Key: Decodable {
      struct Question: Decodable {
        var id: Int
        var correct: Int
      }
      var id: Int
      var questions: [Question]
    }
    try await EffectClock.sleep(for: answerTime)
    guard let key = try file.decode([Key].self).first(where: { $0.id == sheet.quiz }) else {
      throw file.fileError("no longer has quiz \(sheet.quiz); add the quiz")
    }
    let right = sheet.answers.count { given in
      key.questions.contains { $0.id == given.questionId && $0.correct == given.answerId }
    }
    return QuizScore(title: sheet.title, right: right, questions: key.questions.count)
  }

  private func check(_ quiz: Quiz) throws(DataFileError) {
    let owner = "has a quiz \(quiz.id)"
    guard !quiz.questions.isEmpty else {
      throw file.fileError("\(owner) without questions; add questions")
    }
    for question in quiz.questions {
      guard question.answers.count == 4 else {
        throw file.fileError(
          "\(owner) whose question \(question.id) has \(question.answers.count) answers "
            + "instead of 4; correct the file")
      }
      guard question.timeLimit > 0 else {
        throw file.fileError(
          "\(owner) whose question \(question.id) has a time limit of \(question.timeLimit) "
            + "seconds; correct the file")
      }
    }
    guard Set(quiz.questions.map(\.id)).count == quiz.questions.count else {
      throw file.fileError("\(owner) with two questions of the same id; correct the file")
    }
  }
}

/// The parameters of the machines that play a quiz.
package struct QuizParameters: MachineParameters {
  /// The path of the file with the quizzes.
  package var path = "quizes.json"
  /// The simulated response time of the service. Unit: milliseconds.
  package var answerTime = 0
  /// How long one second of a time limit really lasts. Tests use a shorter time. Unit:
  /// milliseconds.
  package var second = 1_000

  package init() {}

  /// The service that is injected into the current task. If none is injected, the service that
  /// reads the file.
  var service: any QuizService {
    Services.current.resolve((any QuizService).self)
      ?? FileQuizService(file: DataFile(path), answerTime: .milliseconds(answerTime))
  }
}
