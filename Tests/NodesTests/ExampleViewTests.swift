import Compositions
import Kettles
import Nodes
import PipeRuntime
import Screens
import Testing

@Suite("The views of the examples")
struct ExampleViewTests {
  private let size = TerminalSize(columns: 60, rows: 20)

  private func text<View: TerminalView>(_ view: View.Type, _ state: View.State) -> [String] {
    View.body(View.screen(of: state), size: size).map(\.description)
  }

  @Test("Each example view fits into its minimum size")
  func fits() {
    func check<View: TerminalView>(_ view: View.Type, _ states: View.State...) {
      for state in states {
        let lines = View.body(View.screen(of: state), size: View.minimumSize)
        #expect(lines.count <= View.minimumSize.rows, "\(View.name)")
        #expect(lines.allSatisfy { $0.width <= View.minimumSize.columns }, "\(View.name)")
      }
    }
    check(DoorView.self, .open(persons: 12), .closing(persons: 1), .closed)
    check(MotorView.self, .idle(floor: 3), .moving(from: 4, to: 0), .arrived(floor: 0))
    check(DisplayView.self, .showing(floor: 1, persons: 1))
    check(WasherView.self, .coldAndEmpty, .spinning)
    check(WasherPanelView.self, .showing(step: 0, finished: 1), .showing(step: 7, finished: 12))
    check(
      PassengersView.self, .waiting(round: 1), .boarding(persons: 8, round: 9), .riding(round: 1))
    check(
      ExampleView.self, .state1(message: "start"), .state2(message: "7"),
      .state3(message: "7, done"))
    check(
      LiftView.self, .waiting(floor: 0), .boarding(persons: 8, floor: 1), .moving(from: 0, to: 4),
      .stopped(floor: 2), .unsafe)
    check(
      ModelsView.self, .inactive, .stateA(message: "hello"), .stateB(value: 7),
      .stateAB(message: "hello", value: 7), .failed)
    check(PhilosopherView.self, .thinking, .eating)
    check(ForkView.self, .free, .held)
    check(VendingView.self, .idle, .coins, .waitingChoice, .dropping)
    check(VendingUserView.self, .idle, .gonnaBuy, .paying, .choosing, .waiting)
    check(KettleView.self, .off, .heating, .hot)
    check(KettleLoaderView.self, .start, .loading("water"), .loaded(.init(celsius: 100)))
    check(RelayView.self, .idle, .passing(n: 12, count: 12))
    check(RelayTallyView.self, .counted(count: 1, last: 1))
    let score = QuizScore(title: "Swift", right: 2, questions: 3)
    let sheet = AnswerSheet(quiz: 1, title: "Swift")
    check(
      QuizView.self, .start(quiz: nil), .loading(quiz: 1), .noQuestionsLeft(sheet),
      .quizAnswersSending(sheet), .quizAnswersSended(score), .results(score), .error(message: "no"))
  }

  @Test("The door view shows how far the door is closed, and maps keys to events")
  func door() {
    #expect(
      text(DoorView.self, .open(persons: 2))[1...3] == [
        "│            │", "│            │  The door is open", "│            │  2 inside",
      ])
    #expect(text(DoorView.self, .closed)[1] == "│████████████│")
    #expect(isEvent(DoorView.event(for: .character("3"), in: .closed), "personsHaveEntered"))
    #expect(isEvent(DoorView.event(for: .character("c"), in: .closed), "closeButtonWasPressed"))
    #expect(isEvent(DoorView.event(for: .character("o"), in: .closed), "openButtonWasPressed"))
    #expect(DoorView.event(for: .character("0"), in: .closed) == nil)
    #expect(DoorView.event(for: .up, in: .closed) == nil)
  }

  private func isEvent(_ event: ElevatorDoor.Event?, _ name: String) -> Bool {
    event.map { "\($0)".hasPrefix(name) } ?? false
  }

  @Test("The washer view marks the current step")
  func washer() {
    #expect(text(WasherView.self, .pumping).filter { $0.hasPrefix("▶") } == ["▶ pumping"])
    #expect(text(WasherView.self, .coldAndEmpty).last == "s starts")
    #expect(text(WasherView.self, .pumping).last == "")
    func event(_ key: Key) -> String? {
      WasherView.event(for: key, in: .coldAndEmpty).map { "\($0)" }
    }
    #expect(event(.character("s")) == "start" && event(.enter) == "start")
    #expect(event(.character("x")) == nil && event(.escape) == nil)
  }

  @Test("The motor view shows the direction, and the display view shows floor and persons")
  func motor() {
    #expect(text(MotorView.self, .moving(from: 4, to: 0))[0] == "Floor 4  ↓ to floor 0")
    #expect(text(MotorView.self, .moving(from: 1, to: 3))[0] == "Floor 1  ↑ to floor 3")
    #expect(text(MotorView.self, .idle(floor: 2))[0] == "Floor 2  at rest")
    #expect(text(MotorView.self, .arrived(floor: 3))[0] == "Floor 3  arrived")
    func event(_ key: Key) -> String? {
      MotorView.event(for: key, in: .idle(floor: 0)).map { "\($0)" }
    }
    #expect(
      event(.character("7")) == "call(floor: 7)" && event(.character("0")) == "call(floor: 0)")
    #expect(event(.character("x")) == nil && event(.up) == nil)
    #expect(text(DisplayView.self, .showing(floor: 2, persons: 1)) == ["  2  ", "1 person"])
    #expect(text(DisplayView.self, .showing(floor: 0, persons: 2)) == ["  0  ", "2 persons"])
  }
}

@Suite("The views of composites, models and kettles")
struct OtherViewTests {
  private let size = TerminalSize(columns: 60, rows: 20)

  private func first<View: TerminalView>(_ view: View.Type, _ state: View.State) -> String? {
    View.body(View.screen(of: state), size: size).first?.description
  }

  @Test("The lift view shows door and motor together, and its keys send events to both nodes")
  func lift() {
    #expect(
      first(LiftView.self, .boarding(persons: 2, floor: 3)) == "Floor 3  the door is open, 2 inside"
    )
    #expect(first(LiftView.self, .moving(from: 3, to: 1)) == "Floor 3  ↓ to floor 1")
    let waiting = LiftState.waiting(floor: 0)
    #expect(LiftView.event(for: .character("o"), in: waiting) == .open)
    #expect(LiftView.event(for: .character("4"), in: waiting) == .go(floor: 4))
    #expect(LiftView.event(for: .character("x"), in: waiting) == nil)
  }

  @Test("The models view shows both models side by side, and its keys send events to both models")
  func models() throws {
    let both = ModelsState.stateAB(message: "hi", value: 3)
    let lines = ModelsView.body(both, size: size).map(\.description)
    #expect(lines[0...1] == ["A  hi", "B  3"])
    func json(_ key: Character) throws -> JSONValue? {
      try ModelsView.event(for: .character(key), in: both).map { try JSONValue(encoding: $0) }
    }
    #expect(try json("a") == JSONValue(encoding: ModelA.Event.eventA(message: "hello")))
    #expect(try json("b") == JSONValue(encoding: ModelB.Event.eventB(value: 7)))
    #expect(try json("x") == JSONValue(encoding: ModelA.Event.eventX))
    #expect(try json("q") == nil)
  }

  @Test("The space bar switches a kettle on or off")
  func kettle() {
    #expect(KettleView.event(for: .character(" "), in: .off) == .switchOn)
    #expect(KettleView.event(for: .character(" "), in: .heating) == .switchOff)
    #expect(KettleView.event(for: .character("x"), in: .hot) == nil)
    #expect(KettleLoaderView.onAppear(.start).map { "\($0)" } == "onAppear")
    #expect(KettleLoaderView.onAppear(.loading("water")).map { "\($0)" } == nil)
  }

  @Test("The relay view sends the next token, and the example view sends its model's events")
  func others() throws {
    let token = try RelayView.event(for: .character("t"), in: .passing(n: 4, count: 4))
      .map { try JSONValue(encoding: $0) }
    #expect(token == ["token": ["n": 5]])
    let state = ExampleState.state1(message: "start")
    #expect(ExampleView.event(for: .character("a"), in: state) == .eventA)
    #expect(ExampleView.event(for: .character("b"), in: state) == .eventB(param: 7))
    #expect(VendingUserView.event(for: .character("t"), in: .idle) == .tau)
    #expect(VendingUserView.event(for: .character("t"), in: .paying) == nil)
  }
}

@Suite("The view of a quiz")
struct QuizViewTests {
  private let question = Question(
    id: 7, text: "Which one?",
    answers: (1...4).map { Question.Answer(id: 10 * $0, text: "answer \($0)") }, timeLimit: 5)

  private var asking: QuizScreen.State {
    .question(
      number: 2, count: 3, question: question,
      attempt: QuizScreen.Attempt(sheet: AnswerSheet(quiz: 1, title: "Swift"), next: []))
  }

  @Test("The quiz view shows a question with its answers, and a digit selects an answer")
  func shown() {
    let lines = QuizView.body(asking, size: QuizView.minimumSize).map(\.description)
    #expect(lines[0...1] == ["Question 2 of 3  5 s", "Which one?"])
    #expect(lines[3...] == ["1 answer 1", "2 answer 2", "3 answer 3", "4 answer 4"])
    #expect(
      QuizView.event(for: .character("3"), in: asking)
        == .questionAnswered(questionId: 7, answerId: 30))
    #expect(QuizView.event(for: .character("5"), in: asking) == nil)
    #expect(QuizView.event(for: .character("0"), in: asking) == nil)
    #expect(QuizView.event(for: .escape, in: asking) == .onDisappear)
  }

  @Test("The quiz view shows the results when they are requested")
  func scored() {
    let score = QuizScore(title: "Swift", right: 2, questions: 3)
    #expect(QuizView.event(for: .enter, in: .quizAnswersSended(score)) == .onResults)
    #expect(QuizView.event(for: .character("r"), in: .quizAnswersSended(score)) == .onResults)
    #expect(QuizView.event(for: .enter, in: .results(score)) == nil)
    let lines = QuizView.body(.results(score), size: QuizView.minimumSize).map(\.description)
    #expect(lines == ["Swift", "2 of 3 answers are right"])
  }

  @Test("The quiz view shows its progress and its failures")
  func others() {
    func lines(_ state: QuizScreen.State) -> [String] {
      QuizView.body(state, size: QuizView.minimumSize).map(\.description)
    }
    #expect(lines(.start(quiz: nil)) == ["No quiz selected"])
    #expect(lines(.loading(quiz: 3)) == ["Loading quiz 3…"])
    let sheet = AnswerSheet(quiz: 1, title: "Swift")
    #expect(lines(.quizAnswersSending(sheet)) == ["Sending the answers…"])
    #expect(lines(.error(message: "no line")) == ["The quiz failed", "no line"])
  }
}
