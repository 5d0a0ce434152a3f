package struct Quiz: Codable, Hashable, Sendable {
  package var id: Int
  package var title: String
  package var questions: [Question]

  package init(id: Int, title: String, questions: [Question]) {
    self.id = id
    self.title = title
    self.questions = questions
  }
}

/// The data that the list of quizzes shows about a quiz.
package struct QuizTitle: Codable, Hashable, Sendable {
  package var id: Int
  package var title: String
  /// The number of questions.
  package var questions: Int

  package init(_ quiz: Quiz) {
    id = quiz.id
    title = quiz.title
    questions = quiz.questions.count
  }
}

/// A question, without the right answer: only ``QuizResults`` has the right answers.
package struct Question: Codable, Hashable, Sendable {
  package struct Answer: Codable, Hashable, Sendable {
    package var id: Int
    package var text: String

    package init(id: Int, text: String) {
      self.id = id
      self.text = text
    }
  }

  package var id: Int
  package var text: String
  /// The four possible answers.
  package var answers: [Answer]
  /// The time limit for the answer. Unit: seconds.
  package var timeLimit: Int

  package init(id: Int, text: String, answers: [Answer], timeLimit: Int) {
    self.id = id
    self.text = text
    self.answers = answers
    self.timeLimit = timeLimit
  }
}

/// The answer that the user has given to a question.
package struct GivenAnswer: Codable, Hashable, Sendable {
  package var questionId: Int
  /// The chosen answer; `nil` if the time has run out.
  package var answerId: Int?

  package init(questionId: Int, answerId: Int?) {
    self.questionId = questionId
    self.answerId = answerId
  }
}

/// All answers that the user has given in a quiz.
package struct AnswerSheet: Codable, Hashable, Sendable {
  package var quiz: Int
  package var title: String
  package var answers: [GivenAnswer]

  package init(quiz: Int, title: String, answers: [GivenAnswer] = []) {
    self.quiz = quiz
    self.title = title
    self.answers = answers
  }
}

/// The number of right answers on an answer sheet.
package struct QuizScore: Codable, Hashable, Sendable {
  package var title: String
  package var right: Int
  package var questions: Int

  package init(title: String, right: Int, questions: Int) {
    self.title = title
    self.right = right
    self.questions = questions
  }
}
