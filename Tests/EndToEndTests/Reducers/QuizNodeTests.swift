import PipeRuntime
import PipeRuntimeTestKit
import Screens
import TestTraits
import Testing

@Suite("A quiz and an address form as nodes", .timed)
struct QuizNodeTests {
  private static let quick = RestartPolicy(
    maximumRestarts: 1_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))

  private func number(_ number: Int) -> StatePattern {
    .matching("question \(number)") { (state: QuizScreen.State) in
      if case .question(number, _, _, _) = state { true } else { false }
    }
  }

  @Test("A quiz can be played from the command line, from the list to the results")
  func played() async throws {
    // A second takes a minute here, so that no question times out, however slow the machine is.
    try await withTopology(Self.quiz(second: 60_000)) { topology in
      let tool = CommandLineTool(beside: topology)
      func expect(_ arguments: String..., code: Int32 = 0, output: String) async throws {
        let result = try await tool.result(of: tool.start(arguments))
        #expect(result.code == code, "\(arguments): \(result)")
        #expect(output.isEmpty || result.output.contains(output), "\(arguments): \(result)")
      }
      try await expect("send", "quizes", "onAppear", output: "quizes: loading  (version 1)")
      try await expect("wait", "quizes=loaded", "--timeout", "10m", output: "State machines")
      try await expect(
        "send", "quizes", #"{"onQuizSelect":{"_0":2}}"#, output: #"quizes: {"loaded""#)
      try await expect(
        "wait", "quiz=question", "--timeout", "10m", output: "What does a view do")
      try await expect(
        "send", "quiz", #"{"questionAnswered":{"questionId":1,"answerId":9}}"#, code: 1, output: "")
      try await expect(
        "send", "quiz", #"{"questionAnswered":{"questionId":1,"answerId":2}}"#,
        output: #""number":2"#)
      try await expect(
        "send", "quiz", #"{"questionAnswered":{"questionId":2,"answerId":1}}"#,
        output: "noQuestionsLeft")
      try await expect(
        "wait", "quiz=quizAnswersSended", "--timeout", "10m",
        output: #"quizAnswersSended([questions: 2, right: 1, title: "SwiftUI"])"#)
      try await expect("send", "quiz", "onResults", output: #"quiz: {"results""#)
      try await expect(
        "send", "quizes", #"{"onQuizSelect":{"_0":3}}"#, output: #"quizes: {"loaded""#)
      try await expect("wait", "quiz=question", "--timeout", "10m", output: "a feedback")
    }
  }

  @Test("A question that times out is skipped, and the results count no answer to this question")
  func timesOver() async throws {
    try await withTopology(Self.quiz(second: 1)) { topology in
      try await topology.send("quiz", QuizScreen.Event.onAppear(quiz: 1))
      try await topology.expect(
        "quiz", inOrder: [number(1), number(2), number(3), number(4), "quizAnswersSended"],
        within: .seconds(20))
      try await topology.expect(
        "results", QuizResults.State.scored(.init(title: "State machines", right: 0, questions: 4)))
    }
  }

  private static let root = FileSystem.parentDirectory(of: #filePath) + "/../../.."
  private static let file = root + "/topologies/quiz.yaml"
  private static let data = root + "/topologies/quizes.json"

  /// Returns the topology of the file with another length of a second. Unit: milliseconds.
  private static func quiz(second: Int64) throws -> Topology {
    var quiz = try TopologyReader.read(path: file).topology
    quiz.nodes = quiz.nodes.map { node in
      var node = node
      guard case .object(var members) = node.parameters else { return node }
      members["second"] = .integer(second)
      members["path"] = .string(data)
      node.parameters = .object(members)
      return node
    }
    return quiz
  }

  @Test("The time limit of a question continues to run when its node is killed")
  func killed() async throws {
    // The 20 seconds of the question take 3 seconds here.
    let topology = Topology(
      name: "quiz", program: "nodes",
      nodes: [
        .machine(
          "QuizScreen", name: "quiz", parameters: ["path": .string(Self.data), "second": 150],
          restart: Self.quick)
      ])
    try await withTopology(topology) { topology in
      try await topology.send("quiz", QuizScreen.Event.onAppear(quiz: 2))
      let first = try await topology.expect("quiz", is: number(1))
      let restart = try await topology.killUntil(.milliseconds(2_500), after: first)
      let second = try await topology.expect("quiz", is: number(2))
      #expect(second.time - first.time >= 2_950_000_000)
      // About half a second is left of the three seconds.
      #expect(second.time - restart < 2_000_000_000)
      let state: QuizScreen.State = try second.state.decode()
      guard case .question(_, _, _, let attempt) = state else {
        Issue.record("\(state)")
        return
      }
      #expect(attempt.sheet.answers == [GivenAnswer(questionId: 1, answerId: nil)])
    }
  }

  @Test("An unknown quiz and a missing file are reported, and the nodes continue")
  func errors() async throws {
    let topology = Topology(
      name: "quiz", program: "nodes",
      nodes: [
        .machine("QuizScreen", name: "quiz", parameters: ["path": .string(Self.data)]),
        .machine("QuizesList", name: "quizes", parameters: ["path": "no-quizes.json"]),
      ], pipes: [.ports(from: "quizes.selections", to: "quiz.selections")])
    try await withTopology(topology) { topology in
      try await topology.send("quiz", QuizScreen.Event.onAppear(quiz: 7))
      try await topology.expect(
        "quiz", QuizScreen.State.error(message: "no such quiz 7; there are 1, 2, 3"))
      try await topology.send("quizes", QuizesList.Event.onAppear)
      try await topology.expect("quizes", "an error") { (state: QuizesList.State) in
        guard case .error(let message) = state else { return false }
        return message.contains("no-quizes.json' cannot be opened")
      }
      for node in try await topology.directory().nodes {
        #expect(node.isRunning && node.incarnation == 1)
      }
    }
  }

  @Test("An address is saved once, and a second save is refused with the reason")
  func address() async throws {
    try await withTopology("topologies/address.yaml") { topology in
      let address = Address(city: "Lisbon", street: "Rua Augusta", house: "24")
      let events: [AddressForm.Event] = [
        .cityChanged(to: "Lisbon"), .streetChanged(to: " Rua Augusta "), .houseChanged(to: "24"),
        .save,
      ]
      for event in events { try await topology.send("form", event) }
      try await topology.expect("form", AddressForm.State.saved(address))
      try await topology.send("form", AddressForm.Event.clear)
      for event in events { try await topology.send("form", event) }
      try await topology.expect(
        "form", AddressForm.State.rejected(address, reason: "this address already exists"))
      try await topology.expect("book", AddressBook.State.known(address, all: [address]))
      let refused = try await topology.send("form", AddressForm.Event.didSave)
      guard case .refused(.noTransition, _) = refused else {
        Issue.record("\(refused)")
        return
      }
    }
  }
}
