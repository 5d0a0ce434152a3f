import PipeRuntime
import PipeRuntimeTestKit
import Screens
import TestTraits
import Testing

@Suite("The navigation example", .timed)
struct NavigationTests {
  private static let file = "topologies/navigation.yaml"

  @Test("'check' reports no error and no warning for the navigation example")
  func checks() async throws {
    let command = try CommandLineTool()
    defer { command.remove() }
    let result = try await command.run("check", Self.file, in: nil)
    #expect(result.code == 0, "\(result)")
    #expect(result.error == "")
  }

  @Test(
    "The detail screen shows the item opened in the list and is hidden by a logout")
  func open() async throws {
    try await withTopology(Self.file) { topology in
      try await topology.expect("login", LoginScreen.State.shown)
      let early = try await topology.send("list", ListScreen.Event.open(item: 7))
      #expect(early == .refused(.guard, state: "hidden"))
      try await topology.send("login", LoginScreen.Event.logIn)
      try await topology.expect("list", ListScreen.State.shown)
      try await topology.send("list", ListScreen.Event.open(item: 7))
      try await topology.expect("detail", DetailScreen.State.showing(item: 7))
      try await topology.send("coordinator", MainCoordinator.Event.answer(number: 2))
      try await topology.expect("detail", DetailScreen.State.asking(item: 7, number: 2))
      try await topology.send("coordinator", MainCoordinator.Event.pop)
      try await topology.expect("detail", DetailScreen.State.showing(item: 7))
      try await topology.send("coordinator", MainCoordinator.Event.logOut)
      try await topology.expect("detail", DetailScreen.State.hidden)
      try await topology.expect("login", LoginScreen.State.shown)
      for node in ["coordinator", "login", "list", "detail"] {
        #expect(try await topology.status(node).status?.deadLetters == 0, "\(node)")
      }
    }
  }

  @Test(
    "The registration coordinator logs the user in, and the profile shows the registered name")
  func registration() async throws {
    try await withTopology(Self.file) { topology in
      try await topology.expect("login", LoginScreen.State.shown)
      try await topology.send("coordinator", MainCoordinator.Event.register)
      try await topology.expect(
        "registration", RegistrationCoordinator.State.shown(screens: .init(root: .terms)))
      try await topology.send("registration", RegistrationCoordinator.Event.accept)
      // An event in flight is not lost when its receiver is killed.
      try await topology.pause("coordinator")
      try await topology.send("registration", RegistrationCoordinator.Event.enter(name: "Ada"))
      try await topology.kill("coordinator")
      try await topology.expect("list", ListScreen.State.shown)
      try await topology.expect("registration", RegistrationCoordinator.State.hidden)
      try await topology.send("coordinator", MainCoordinator.Event.switchTo(tab: .profile))
      try await topology.expect("profile", ProfileScreen.State.shown(name: "Ada"))
      try await topology.send("coordinator", MainCoordinator.Event.switchTo(tab: .results))
      try await topology.expect("results", ResultsScreen.State.shown)
      try await topology.send("results", ResultsScreen.Event.open(item: 3))
      try await topology.expect("detail", DetailScreen.State.showing(item: 3))
      try await topology.send("coordinator", MainCoordinator.Event.switchTo(tab: .profile))
      try await topology.send("profile", ProfileScreen.Event.logOut)
      try await topology.expect("login", LoginScreen.State.shown)
      for node in ["coordinator", "registration", "results", "profile"] {
        #expect(try await topology.status(node).status?.deadLetters == 0, "\(node)")
      }
    }
  }

  @Test("A screen opens a sheet, and a coordinator that refuses an event gives the reason")
  func sheet() async throws {
    try await withTopology(Self.file) { topology in
      try await topology.expect("login", LoginScreen.State.shown)
      try await topology.send("login", LoginScreen.Event.forgotPassword)
      try await topology.expect("coordinator", "the sheet") { (state: MainCoordinator.State) in
        guard case .unauthenticated(let screens) = state.root else { return false }
        return screens.sheet == .forgotPassword
      }
      let refused = try await topology.send("coordinator", MainCoordinator.Event.register)
      guard case .refused(.thrown(let text), _) = refused else {
        Issue.record("\(refused)")
        return
      }
      #expect(text == "the sheet 'forgotPassword' is shown; dismiss it first")
      try await topology.send("coordinator", MainCoordinator.Event.dismiss)
      try await topology.send("login", LoginScreen.Event.logIn)
      try await topology.expect("list", ListScreen.State.shown)
    }
  }

  @Test("An opened item reaches its screen even if the coordinator is killed on the way")
  func killed() async throws {
    try await withTopology(Self.file) { topology in
      try await topology.expect("login", LoginScreen.State.shown)
      try await topology.send("login", LoginScreen.Event.logIn)
      try await topology.expect("list", ListScreen.State.shown)
      for item in 1...2 {
        try await runs("coordinator", start: UInt64(2 * item - 1), in: topology)
        // The coordinator has not accepted the event yet when it is killed.
        try await topology.pause("coordinator")
        try await topology.send("list", ListScreen.Event.open(item: item))
        try await topology.kill("coordinator")
        try await topology.expect("detail", DetailScreen.State.showing(item: item))
        try await runs("coordinator", start: UInt64(2 * item), in: topology)
        // The coordinator may have accepted the event when it is killed, without having notified
        // the list.
        try await topology.send("coordinator", MainCoordinator.Event.pop)
        try await topology.kill("coordinator")
        try await topology.expect("detail", DetailScreen.State.hidden)
        try await topology.expect("list", ListScreen.State.shown)
      }
      try await runs("coordinator", start: 5, in: topology)
      let coordinator = try await topology.status("coordinator")
      #expect(coordinator.restarts == 4)
      // One login and two items opened and closed: no event is repeated or lost.
      #expect(coordinator.status?.version == 5)
      #expect(coordinator.status?.deadLetters == 0)
    }
  }

  private func runs(
    _ node: String, start: UInt64, in topology: TopologyHarness
  ) async throws {
    try await topology.expectStatus(of: node, "start \(start)") {
      $0.isRunning && $0.incarnation == start
    }
  }

  @Test("A link opens its screens, and an invalid link is shown with the reason")
  func links() async throws {
    try await withTopology(Self.file) { topology in
      func follow(_ link: String) async throws -> RequestOutcome {
        try await topology.send("coordinator", MainCoordinator.Event.follow(link: link))
      }
      try await topology.expect("login", LoginScreen.State.shown)
      // The link waits for the login.
      _ = try await follow("app://quizzes/7/question/2")
      try await topology.send("login", LoginScreen.Event.logIn)
      try await topology.expect("detail", DetailScreen.State.asking(item: 7, number: 2))
      guard case .accepted(_, let state) = try await follow("quizes/3") else {
        Issue.record("a link that leads nowhere is taken all the same")
        return
      }
      #expect(state["problem"]?["link"] == "quizes/3")
      #expect(state["problem"]?["reason"]?.string?.hasSuffix(Suggestion.hint("quizzes/3")) == true)
      try await topology.expect("detail", DetailScreen.State.asking(item: 7, number: 2))
      guard case .accepted(_, let state) = try await follow("results/5") else {
        Issue.record("a link to results should be followed")
        return
      }
      #expect(state["problem"] == nil)
      try await topology.expect("detail", DetailScreen.State.showing(item: 5))
    }
  }
}
