import PipeRuntime
import TestTraits
import Testing

@Suite("Completion in zsh and fish", .timed, .blocking)
struct ShellCompletionTests {
  private typealias ExpectedCompletion = (line: String, words: [String])

  private static let doors = """
    topology: doors
    program: nodes
    nodes: { front: { machine: ElevatorDoor }, back: { machine: LiftDoor } }
    """
  private static let events = [
    "closeButtonWasPressed", "doorHasLocked", "openButtonWasPressed", "personsHaveEntered",
  ]

  /// Offers that need only the file in the directory.
  private static let ofFile: [ExpectedCompletion] = [
    ("sta", ["start", "status"]),
    (
      "-",
      [
        "--connect", "--help", "--key", "--output", "--topology", "--version", "-V", "-h", "-o",
        "-p",
      ]
    ),
    ("logs --f", ["--follow"]),
    ("ps -o js", ["json", "jsonl"]),
    ("apply -o js", ["json", "jsonl"]),
    ("apply --d", ["--deployment", "--dry-run"]),
    ("apply ", ["doors.yaml", "folder", "topology.yaml"]),
    ("check fol", ["folder"]),
    ("init --directory fol", ["folder"]),
    ("completion ", ["bash", "fish", "zsh"]),
    ("dead-letters front re", ["resend"]),
    ("kill -s ST", ["STOP"]),
    ("send ", ["back", "front"]),
    ("send front ", events),
    ("send front close", ["closeButtonWasPressed"]),
    ("send front doorHasLocked ", []),
    ("send nobody ", []),
    ("why --topology=doors front op", ["openButtonWasPressed"]),
    ("describe --file doors.yaml fr", ["front"]),
    ("describe --file=doors.yaml fr", ["front"]),
    ("up ", ["back", "doors.yaml", "folder", "front", "topology.yaml"]),
    ("up doors.yaml ", ["back", "front"]),
    ("up front b", ["back"]),
    ("down ", ["back", "front"]),
    ("down front b", ["back"]),
    ("logs front b", ["back"]),
  ]

  /// Offers that need a running topology.
  private static let ofRun: [ExpectedCompletion] = [
    ("-p ", ["relay"]),
    ("down --topology=re", ["relay"]),
    ("send ", ["n1", "n2", "still"]),
    ("send n1 ", ["token"]),
    ("send still ", []),
    ("-p relay why n2 t", ["token"]),
    ("send -p relay --timeout 1s n1 ", ["token"]),
    ("down n", ["n1", "n2"]),
    ("up n1 n", ["n1", "n2"]),
  ]

  private static func check(
    _ shell: CompletingShell, _ expectedCompletions: [ExpectedCompletion], in command: Command
  ) throws {
    for (line, words) in expectedCompletions {
      let word = line.split(separator: " ", omittingEmptySubsequences: false).last ?? ""
      let offered = try shell.complete("orchestrator \(line)", in: command)
        // Some shells offer options when nothing else matches.
        .filter { !$0.hasPrefix("-") || word.hasPrefix("-") }
        // Some shells offer an option together with its value.
        .map { word.contains("=") ? String($0.split(separator: "=").last ?? "") : $0 }
        // Some shells mark a folder with a slash.
        .map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
      #expect(offered == words, "\(shell): orchestrator \(line)")
    }
  }

  private static func checkFile(_ shell: CompletingShell) throws {
    let command = try Command()
    defer { command.remove() }
    let made = try command.run(
      shell: "mkdir folder; cat > topology.yaml <<'END'\n\(doors)\nEND\ncp topology.yaml doors.yaml"
    )
    #expect(made.exit == .exited(code: 0))
    try check(shell, ofFile, in: command)
  }

  private static func checkRun(_ shell: CompletingShell) throws {
    let relay = try RunningRelay()
    try check(shell, ofRun, in: relay.command)
    #expect(relay.end() == .exited(code: 0))
  }

  @Test(
    "Completion in zsh (if installed) offers verbs, options, files, nodes and events of a file",
    .enabled(if: CompletingShell.zsh.isInstalled, "there is no /usr/bin/zsh"))
  func zshFile() throws { try Self.checkFile(.zsh) }

  @Test(
    "Completion in zsh (if installed) offers running topologies with their nodes and events",
    .enabled(if: CompletingShell.zsh.isInstalled, "there is no /usr/bin/zsh"))
  func zshRun() throws { try Self.checkRun(.zsh) }

  @Test(
    "Completion in fish (if installed) offers verbs, options, files, nodes and events of a file",
    .enabled(if: CompletingShell.fish.isInstalled, "there is no /usr/bin/fish"))
  func fishFile() throws { try Self.checkFile(.fish) }

  @Test(
    "Completion in fish (if installed) offers running topologies with their nodes and events",
    .enabled(if: CompletingShell.fish.isInstalled, "there is no /usr/bin/fish"))
  func fishRun() throws { try Self.checkRun(.fish) }
}
