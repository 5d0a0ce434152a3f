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

/// What the list shows of a quiz.
package struct QuizTitle: Codable, Hashable, Sendable {
  package var id: Int
  package var title: String
  /// How many questions it has.
  package var questions: Int

  package init(_ quiz: Quiz) {
    id = quiz.id
    title = quiz.title
    questions = quiz.questions.count
  }
}

/// A question without what tells which answer is right: that stays with the results.
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
  /// Four.
  package var answers: [Answer]
  /// The time to answer. Unit: seconds.
  package var timeLimit: Int

  package init(id: Int, text: String, answers: [Answer], timeLimit: Int) {
    self.id = id
    self.text = text
    self.answers = answers
    self.timeLimit = timeLimit
  }
}

/// What was answered to a question.
package struct GivenAnswer: Codable, Hashable, Sendable {
  package var questionId: Int
  /// `nil` where the time was over.
  package var answerId: Int?

  package init(questionId: Int, answerId: Int?) {
    self.questionId = questionId
    self.answerId = answerId
  }
}

/// All that was answered in a quiz.
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

/// How many answers of a sheet are right.
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
