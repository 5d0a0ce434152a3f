import PipeRuntime
import PipeRuntimeTestKit
import Screens
import TestTraits
import Testing

@Suite("The list of quizzes", .stallLimit(.seconds(60)))
struct QuizesListTests {
  private typealias Run = AsyncStateMachineSequence<QuizesList.State, QuizesList.Event, Never>

  @Test("The quiz list loads when it appears, and a quiz can be selected")
  func loads() async {
    let ports = Ports()
    let selections: EventPipe<QuizScreen.Event> = ports.pipe("selections")
    let run = await Services.with(StubQuizes().services) {
      Run(
        stateMachine: QuizesList.stateMachine(QuizParameters()),
        runtime: QuizesList.runtime(QuizParameters(), ports))
    }
    #expect(await run.send(.onQuizSelect(1)) == .refused(.noTransition))
    #expect(await run.send(.onAppear) == .accepted(.loading))
    let loaded = QuizesList.State.loaded(quizes: [QuizTitle(StubQuizes.quiz)])
    for await state in run where state == loaded { break }
    #expect(await run.send(.onQuizSelect(2)) == .refused(.guard))
    #expect(await run.send(.onAppear) == .refused(.noTransition))
    let screen = AsyncStateMachineSequence(
      stateMachine: QuizScreen.stateMachine(QuizParameters()),
      runtime: Runtime().connectAsReceiver(to: selections))
    #expect(await run.send(.onQuizSelect(1)) == .accepted(loaded))
    for await state in screen where state == .start(quiz: 1) { break }
  }

  @Test("The quiz list shows a failure and tries again at its next appearance")
  func fails() async {
    let run = await Services.with(StubQuizes(failure: LoadFailure("no line")).services) {
      Run(
        stateMachine: QuizesList.stateMachine(QuizParameters()),
        runtime: QuizesList.runtime(QuizParameters(), Ports()))
    }
    await run.send(.onAppear)
    for await state in run where state == .error(message: "no line") { break }
    #expect(await run.send(.onAppear) == .accepted(.loading))
  }
}

@Suite("The screen of a quiz", .stallLimit(.seconds(60)))
struct QuizScreenTests {
  private typealias State = QuizScreen.State
  private typealias Event = QuizScreen.Event
  private typealias Run = AsyncStateMachineSequence<State, Event, Never>

  private static let sheet = AnswerSheet(quiz: 1, title: "Numbers")
  private static let score = QuizScore(title: "Numbers", right: 3, questions: 3)

  private func run(_ service: StubQuizes = StubQuizes()) async -> Run {
    await Services.with(service.services) {
      Run(
        stateMachine: QuizScreen.stateMachine(QuizParameters()),
        runtime: QuizScreen.runtime(QuizParameters(), Ports()))
    }
  }

  @Test("An answer shows the next question, and the last answer sends all answers")
  func answers() async {
    await withManualClock { _ in
      let run = await run()
      let states = StateRecorder(run)
      await run.send(.onAppear(quiz: 1))
      await states.wait(until: StubQuizes.asking(1, after: []))
      for (question, answer) in [(1, 1), (2, 4), (3, 3)] {
        await run.send(.questionAnswered(questionId: question, answerId: answer))
      }
      let given = [(1, 1), (2, 4), (3, 3)].map { GivenAnswer(questionId: $0, answerId: $1) }
      let sheet = AnswerSheet(quiz: 1, title: "Numbers", answers: given)
      await states.wait(until: .quizAnswersSending(sheet))
      await run.send(.quizAnswersSendingCompleted(Self.score))
      #expect(await run.send(.onResults) == .accepted(.results(Self.score)))
      await states.wait(until: .results(Self.score))
      #expect(
        states.states == [
          .start(quiz: nil), .start(quiz: 1), .loading(quiz: 1), StubQuizes.asking(1, after: []),
          StubQuizes.asking(2, after: [1]), StubQuizes.asking(3, after: [1, 4]),
          .noQuestionsLeft(sheet), .quizAnswersSending(sheet), .quizAnswersSended(Self.score),
          .results(Self.score),
        ])
    }
  }

  @Test("A question ends at its time limit, and the next question's time starts then")
  func timeLimits() async {
    await withManualClock { clock in
      let run = await run()
      let states = StateRecorder(run)
      await run.send(.onAppear(quiz: 1))
      await states.wait(until: StubQuizes.asking(1, after: []))
      await clock.waitForSleepers()
      await clock.advance(by: .seconds(9))
      // Answering a question cancels its time limit.
      await run.send(.questionAnswered(questionId: 1, answerId: 1))
      await states.wait(until: StubQuizes.asking(2, after: [1]))
      await yieldUntil(clock.sleepers.map(\.offset) == [.seconds(29)])
      await clock.advance(by: .seconds(19))
      #expect(run.state == StubQuizes.asking(2, after: [1]))
      await clock.advance(by: .seconds(1))
      await states.wait(until: StubQuizes.asking(3, after: [1, nil]))
      await clock.waitForSleepers()
      await clock.advance(by: .seconds(30))
      await states.wait { state in
        guard case .quizAnswersSending(let sheet) = state else { return false }
        return sheet.answers.map(\.answerId) == [1, nil, nil]
      }
    }
  }

  @Test("A quiz that was left asks no more questions and can be started again")
  func disappears() async {
    await withManualClock { clock in
      let run = await run()
      let states = StateRecorder(run)
      await run.send(.onAppear(quiz: 1))
      await states.wait(until: StubQuizes.asking(1, after: []))
      await clock.waitForSleepers()
      await run.send(.onDisappear)
      await yieldUntil(clock.sleepers.isEmpty)
      #expect(run.state == .start(quiz: nil))
      #expect(await run.send(.onDisappear) == .refused(.noTransition))
      await run.send(.onAppear(quiz: 1))
      await states.wait(until: StubQuizes.asking(1, after: []))
    }
  }

  @Test("A quiz that cannot be fetched shows the error and can be tried again")
  func fails() async {
    let run = await run(StubQuizes(failure: LoadFailure("no line")))
    await run.send(.onAppear(quiz: 1))
    for await state in run where state == .error(message: "no line") { break }
    #expect(await run.send(.onAppear(quiz: 1)) == .accepted(.start(quiz: 1)))
    let other = await self.run()
    await other.send(.onAppear(quiz: 7))
    for await state in other where state == .error(message: "no such quiz 7; there are 1") {
      break
    }
  }

  @Test(
    "The quiz screen refuses an event that does not fit its state",
    arguments: [
      (StubQuizes.asking(2, after: [1]), .questionAnswered(questionId: 1, answerId: 1)),
      (StubQuizes.asking(2, after: [1]), .questionAnswered(questionId: 2, answerId: 5)),
      (StubQuizes.asking(2, after: [1]), .questionTimeLimitExceeded(questionId: 1)),
      (StubQuizes.asking(2, after: [1]), .onAppear(quiz: 1)),
      (.start(quiz: nil), .quizFetchingStarted),
      (.loading(quiz: 2), .quizFetchingCompleted(StubQuizes.quiz)),
      (.noQuestionsLeft(sheet), .quizAnswersSendingCompleted(score)),
      (.quizAnswersSending(sheet), .quizAnswersSendingStarted),
      (.quizAnswersSended(score), .quizAnswersSendingCompleted(score)),
      (.results(score), .onResults), (.error(message: "no"), .error(message: "yes")),
    ] as [(QuizScreen.State, QuizScreen.Event)])
  func refuses(state: QuizScreen.State, event: QuizScreen.Event) {
    let machine = QuizScreen.stateMachine(QuizParameters())
    #expect(machine.reduce(state, event) == .refused(.noTransition))
  }
}

@Suite("The results of a quiz", .stallLimit(.seconds(60)))
struct QuizResultsTests {
  private func results(_ service: StubQuizes) async -> QuizResults.State? {
    let run = await Services.with(service.services) {
      AsyncStateMachineSequence(
        stateMachine: QuizResults.stateMachine(QuizParameters()),
        runtime: QuizResults.runtime(QuizParameters(), Ports()))
    }
    let given = [
      GivenAnswer(questionId: 1, answerId: 1), GivenAnswer(questionId: 2, answerId: nil),
    ]
    let sheet = AnswerSheet(quiz: 1, title: "Numbers", answers: given)
    #expect(await run.send(.answers(sheet)) == .accepted(.scoring(sheet)))
    for await state in run where state != .waiting && state != .scoring(sheet) { return state }
    return nil
  }

  @Test("Correct answers are counted, and a failure is shown")
  func scores() async {
    let score = QuizScore(title: "Numbers", right: 1, questions: 3)
    #expect(await results(StubQuizes()) == .scored(score))
    #expect(
      await results(StubQuizes(failure: LoadFailure("no line"))) == .failed(message: "no line"))
  }
}

@Suite("Quizzes in a file")
struct FileQuizServiceTests {
  private func question(id: Int = 1, answers: Int = 4, timeLimit: Int = 5) -> String {
    let answers = (1...answers).map { #"{"id":\#($0),"text":"a"}"# }.joined(separator: ",")
    return #"{"id":\#(id),"text":"q","answers":[\#(answers)],"correct":2,"#
      + #""timeLimit":\#(timeLimit)}"#
  }

  private func list(_ questions: String) async throws -> QuizesList.State? {
    let directory = try TestDirectory()
    defer { directory.remove() }
    var parameters = QuizParameters()
    parameters.path = try directory.write(
      #"[{"id":1,"title":"t","questions":[\#(questions)]}]"#, to: "quizes.json")
    let run = AsyncStateMachineSequence(
      stateMachine: QuizesList.stateMachine(parameters),
      runtime: QuizesList.runtime(parameters, Ports()))
    await run.send(.onAppear)
    for await state in run where state != .start && state != .loading { return state }
    return nil
  }

  @Test("The quizzes of a valid quiz file are listed")
  func fits() async throws {
    guard case .loaded(let quizes) = try await list(question()) else {
      Issue.record("it was not loaded")
      return
    }
    #expect(quizes.map(\.questions) == [1])
  }

  @Test("An error in a quiz file is reported with its cause and the file")
  func problems() async throws {
    let bad = [
      ("", "has a quiz 1 without questions; add questions"),
      (question(answers: 3), "whose question 1 has 3 answers instead of 4; correct the file"),
      (question(timeLimit: 0), "whose question 1 has a time limit of 0 seconds; correct the file"),
      (question() + "," + question(), "with two questions of the same id; correct the file"),
      ("7", "'[0].questions[0]' is not of type"),
    ]
    for (text, message) in bad {
      guard case .error(let errorText) = try await list(text) else {
        Issue.record("no error, where '\(message)' was expected")
        continue
      }
      #expect(errorText.contains(message) && errorText.contains("quizes.json"), "\(errorText)")
    }
  }
}
