import PipeRuntime

/// Where the quizzes are from, and who knows the right answers.
package protocol QuizService: Sendable {
  func fetchQuizes() async throws -> [Quiz]
  func score(_ sheet: AnswerSheet) async throws -> QuizScore
}

extension QuizService {
  func fetchQuiz(_ id: Int) async throws -> Quiz {
    let all = try await fetchQuizes()
    guard let quiz = all.first(where: { $0.id == id }) else {
      throw DataFileError(
        "there is no quiz \(id); there are " + all.map { "\($0.id)" }.joined(separator: ", "))
    }
    return quiz
  }
}

/// Quizzes in a file.
package struct FileQuizService: QuizService {
  let file: DataFile
  /// How long it takes to answer.
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
      throw file.problem("has no quiz \(sheet.quiz) any more. Add it")
    }
    let right = sheet.answers.count { given in
      key.questions.contains { $0.id == given.questionId && $0.correct == given.answerId }
    }
    return QuizScore(title: sheet.title, right: right, questions: key.questions.count)
  }

  private func check(_ quiz: Quiz) throws(DataFileError) {
    let owner = "has a quiz \(quiz.id)"
    guard !quiz.questions.isEmpty else {
      throw file.problem("\(owner) without questions. Add some")
    }
    for question in quiz.questions {
      guard question.answers.count == 4 else {
        throw file.problem(
          "\(owner) whose question \(question.id) has \(question.answers.count) answers and not 4. "
            + "Correct it")
      }
      guard question.timeLimit > 0 else {
        throw file.problem(
          "\(owner) whose question \(question.id) leaves \(question.timeLimit) seconds. Correct it")
      }
    }
    guard Set(quiz.questions.map(\.id)).count == quiz.questions.count else {
      throw file.problem("\(owner) of which two questions have one id. Correct it")
    }
  }
}

/// The parameters of the machines that play a quiz.
package struct QuizParameters: MachineParameters {
  /// The file of the quizzes.
  package var path = "quizes.json"
  /// How long the service takes to answer. Unit: milliseconds.
  package var answerTime = 0
  /// How long the second of a time limit is: less in tests. Unit: milliseconds.
  package var second = 1_000

  package init() {}

  /// The service that the task has, or else the real one.
  var service: any QuizService {
    Services.current.resolve((any QuizService).self)
      ?? FileQuizService(file: DataFile(path), answerTime: .milliseconds(answerTime))
  }
}
