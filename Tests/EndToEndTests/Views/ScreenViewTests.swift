import Nodes
import PipeRuntime
import PipeRuntimeTestKit
import Screens
import TestTraits
import Testing

@Suite("The documented screens on a terminal", .timed)
struct ScreenViewTests {
  private static let down = "\u{1B}[B"
  private static let right = "\u{1B}[C"
  private static let left = "\u{1B}[D"
  private static let end = "\u{1B}[F"

  @Test("Movies are loaded when their view opens, and the load is cancelled when the view closes")
  func movies() async throws {
    try await withTopology("topologies/movies.yaml") { topology in
      let terminal = try topology.view("MoviesView", "movies", rows: 8)
      try await terminal.expect("▶ A Trip to the Moon  1902")
      terminal.type(Self.down + Self.down)
      try await terminal.expect("▶ Metropolis")
      terminal.type(Self.end)
      let lines = try await terminal.expect("▶ Rashomon")
      #expect(!lines.contains { $0.contains("A Trip to the Moon") })
      try await terminal.expectQuit()
      try await topology.expect("movies", MoviesList.State.start)
      // A closed terminal closes its view, too.
      let closed = try topology.view("MoviesView", "movies")
      try await closed.expect("▶ A Trip to the Moon")
      closed.hangUp()
      #expect(try await closed.expectEnd() == .exited(code: 1))
      try await topology.expect("movies", MoviesList.State.start)
      let failing = try topology.view("MoviesView", "failing")
      try await failing.expect("r tries again")
      try await failing.expectQuit()
    }
  }

  @Test("A growing list fetches its next page when its last row becomes visible")
  func pages() async throws {
    try await withTopology("topologies/movies-pages.yaml") { topology in
      // The terminal shows eleven rows, which is more than the first page.
      let terminal = try topology.view("MoviesPagesView", "pages")
      try await terminal.expect("Movies  20")
      try await topology.expect("pages", "two pages") { (state: MoviesPages.State) in
        state.status == .idle && state.movies.count == 20
      }
      terminal.type(Self.end)
      try await terminal.expect("Movies  23")
      try await terminal.expect("No more movies")
      try await terminal.expectQuit()
      let failing = try topology.view("MoviesPagesView", "failing")
      try await failing.expect("r tries again")
      try await failing.expectQuit()
    }
  }

  @Test("A quiz is chosen from its list and played, and its results are shown")
  func quiz() async throws {
    try await withTopology("topologies/quiz.yaml") { topology in
      let list = try topology.view("QuizesView", "quizes")
      try await list.expect("▶ State machines")
      let quiz = try topology.view("QuizView", "quiz")
      let results = try topology.view("ResultsView", "results")
      try await results.expect("No quiz has been played yet")
      list.type(Self.down + "\r")
      try await quiz.expect("Question 1 of 2")
      quiz.type("2")
      try await quiz.expect("Question 2 of 2")
      quiz.type("1")
      try await results.expect("1 of 2 answers are right")
      for terminal in [list, results, quiz] { try await terminal.expectQuit() }
      try await topology.expect("quiz", QuizScreen.State.start(quiz: nil))
    }
  }

  @Test("An address can be typed and saved after a MiB of arbitrary input")
  func address() async throws {
    try await withTopology("topologies/address.yaml") { topology in
      let terminal = try topology.view("AddressView", "form")
      try await terminal.expect("Add an address")
      // A MiB of text and control bytes, except bytes that leave the field or the view.
      let bytes = (0..<(1 << 20)).map { number -> UInt8 in
        let byte = UInt8(truncatingIfNeeded: number &* 7)
        return [0x03, 0x09, 0x0A, 0x0D, 0x1A].contains(byte) ? 0x78 : byte
      }
      // The bytes after the MiB wait for capacity in the terminal as well.
      try await terminal.feed(bytes + Array("x\u{5}\u{15}Quebec\r".utf8))
      try await terminal.expect("City    Quebec")
      terminal.type("rue q\r7\r")
      try await terminal.expect("Ready to save")
      #expect(terminal.lines.contains("Street  rue q") && terminal.lines.contains("House   7"))
      terminal.type("\r")
      try await terminal.expect("Saved. Enter adds another address")
      let address = Address(city: "Quebec", street: "rue q", house: "7")
      try await topology.expect("book", AddressBook.State.added(address, all: [address]))
      terminal.type("\r")
      try await terminal.expect("Enter goes to the next field")
      #expect(terminal.lines.contains("City"))
      // The same address is refused the second time, and stays editable.
      terminal.type("Quebec\rrue q\r7\r\r")
      try await terminal.expect("Not saved: this address already exists")
      // In a text field, 'q' is text. ^C leaves the view.
      terminal.type("\t")
      try await terminal.expect("^C quits")
      try await terminal.expectQuit(by: "\u{3}")
      #expect(try await topology.status("form").status?.deadLetters == 0)
    }
  }

  @Test("A counter counts, and its parent in another process shows the count")
  func counter() async throws {
    try await withTopology("topologies/counter.yaml") { topology in
      let counter = try topology.view("CounterView", "counter")
      let tally = try topology.view("TallyView", "tally")
      try await counter.expect("+ and - count")
      counter.type("+++-")
      let lines = try await tally.expect("3 up, 1 down")
      #expect(lines[0] == "2")
      for terminal in [counter, tally] { try await terminal.expectQuit() }
    }
  }

  @Test("The navigation view registers a user and shows tabs, stacked screens and a sheet")
  func navigation() async throws {
    try await withTopology("topologies/navigation.yaml") { topology in
      let terminal = try topology.view("NavigationView", "coordinator")
      try await terminal.expect("Welcome")
      terminal.type("f")
      try await terminal.expect("A new password")
      terminal.type("d")
      try await terminal.expect("Welcome")
      terminal.type("r")
      try await terminal.expect("Another coordinator runs the registration")
      let registration = try topology.view("RegistrationView", "registration")
      try await registration.expect("There are no terms")
      registration.type("\r")
      try await registration.expect("Enter registers")
      registration.type("Quentin q\r")
      try await terminal.expect("[quizzes]")
      try await registration.expect("No registration in progress")
      terminal.type(Self.right + Self.right)
      try await terminal.expect("Quentin q")
      terminal.type(Self.left + Self.left + Self.down + Self.down)
      try await terminal.expect("▶ Quiz 3")
      terminal.type("\r")
      try await terminal.expect("Quizzes › Quiz 3")
      terminal.type("2")
      try await terminal.expect("Question 2 of quiz 3")
      terminal.type("i")
      try await terminal.expect("About Question 2")
      terminal.type("db")
      try await terminal.expect("1-9 asks")
      terminal.type("b")
      try await terminal.expect("▶ Quiz 3")
      // There is no screen to go back to, so the event is refused.
      terminal.type("b")
      try await terminal.expect("refused: pop")
      for view in [terminal, registration] { try await view.expectQuit() }
    }
  }

  @Test(
    "Each screen of docs/CLIENTS.md starts by its command, and stops its topology",
    arguments: try Document("docs/CLIENTS.md").viewCommands)
  func oneCommand(command: String) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let words = command.split(separator: " ").dropFirst().map { word in
      word.hasPrefix("topologies/") ? PackagePath.root + "/" + word : String(word)
    }
    let terminal = try PseudoTerminal(
      CommandLineTool.products + "/nodes", words, environment: tool.directory.environment())
    try await terminal.expect(" quits")
    try await terminal.expectQuit(by: "\u{3}")
    let list = try await tool.run("ls", "-o", "json")
    #expect(list.code == 0 && list.output == "[]\n", "\(list)")
  }

  @Test("'--up' leaves a running topology unchanged, and reports what prevents a start")
  func upOfRunning() async throws {
    try await withTopology("topologies/counter.yaml") { topology in
      let tool = CommandLineTool(beside: topology)
      let program = CommandLineTool.products + "/nodes"
      func view(_ file: String) async throws -> CommandLineTool.Result {
        try await tool.result(
          of: try tool.start(
            program: program, ["view", "CounterView", "counter", "--up", file, "-n", "1"]))
      }
      let shown = try await view(PackagePath.root + "/topologies/counter.yaml")
      #expect(shown.code == 0 && shown.output.hasPrefix("0\n"), "\(shown)")
      #expect(try await topology.directory().isRunning)
      let missing = try await view("no-such.yaml")
      #expect(missing.code == 2 && missing.error.contains("no-such.yaml"), "\(missing)")
    }
  }
}
