import Glibc
import PipeClient
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTopology

/// The verb `view` of a node program: `PROGRAM view VIEW NODE`.
struct ViewCommand {
  let program: String
  let views: [any TerminalView.Type]

  static func description(of program: String) -> CommandDescription {
    CommandDescription(
      "view", of: program, "Shows a node on the terminal, and sends events by keys",
      discussion:
        "Without a terminal, prints the view. q or ^C leaves the view. Exit codes: 0, the user "
        + "has left the view; 1, the node, the topology or the terminal is gone; 2, wrong usage, "
        + "or the view cannot show the node's states; 3, the topology is not running. If --up "
        + "fails, the exit code is the exit code of 'orchestrator up'.",
      options: [
        .topology,
        Option(
          "up", value: .file,
          "Starts the topology of this file first, unless it is running, and stops it after "
            + "the view"),
        Option(
          "count", "n", value: .count("N", from: 1), "Without a terminal: exits after N prints"),
        Option(
          "every",
          "Shows every state, which slows the node down. Default: the latest state, ten "
            + "times per second"
        ),
        Option(
          "state", value: .text("JSON"), "Prints the view of this state once, without a topology"),
      ],
      positionals: [
        Positional("VIEW", .text("VIEW"), .one, "The registered name of the view"),
        Positional("NODE", .node, .optional, "The node to show; none with --state"),
      ],
      examples: [
        (
          "\(program) view QuizView quiz --up topologies/quiz.yaml",
          "Starts the quiz, shows the view, and stops the quiz afterwards"
        ),
        (
          "\(program) view DoorView --state '{\"open\":{\"persons\":2}}'",
          "Prints the view of an open door"
        ),
      ])
  }

  /// Shows a view until the view ends, and returns the exit code.
  func run(_ arguments: ParsedArguments) -> Int32 {
    let name = arguments.positionals[0]
    guard let view = views.first(where: { $0.name == name }) else {
      StandardError.write(
        "\(program): error: this program has no view '\(name)'"
          + Suggestion.among(views.map { $0.name }, like: name) + "\n")
      return 2
    }
    if let state = arguments.value("state") { return print(view, of: state, arguments) }
    guard arguments.positionals.count == 2 else {
      return fail("'view' requires NODE, or a state with --state", code: 2)
    }
    do {
      let topology = try arguments.value("up").map { try ViewedTopology(file: $0) }
      let code = run(
        view, arguments, of: try topology.map { .local($0.name) } ?? arguments.target)
      try topology?.close()
      return code
    } catch {
      StandardError.write("\(program): error: \(error)\n")
      return (error as? ViewedTopology.LaunchError)?.code ?? 2
    }
  }

  private func fail(_ failure: String, code: Int32) -> Int32 {
    StandardError.write("\(program): error: \(failure)\n")
    return code
  }

  /// Prints the view of a state, and returns the exit code.
  /// - Parameter text: The state as JSON, or the plain name of a state without associated values.
  private func print(
    _ view: any TerminalView.Type, of text: String, _ arguments: ParsedArguments
  ) -> Int32 {
    guard arguments.positionals.count == 1, arguments.value("up") == nil else {
      return fail("--state cannot be used together with NODE or --up", code: 2)
    }
    do {
      let state = (try? JSONValue(parsing: text.utf8)) ?? .string(text)
      let lines = try view.reader().read(state).body(size: PlainOutput.size)
      Swift.print(lines.map { "\($0)" }.joined(separator: "\n"))
      return 0
    } catch {
      return fail("view '\(view.name)': \(error)", code: 2)
    }
  }

  private func run(
    _ view: any TerminalView.Type, _ arguments: ParsedArguments, of target: TopologyTarget
  ) -> Int32 {
    signal(SIGPIPE, SIG_IGN)
    let ending = show(view, arguments, of: target)
    if let message = ending.message {
      StandardError.write("\(program): \(ending.isError ? "error: " : "")\(message)\n")
    }
    return ending.exitCode
  }

  private func show(
    _ view: any TerminalView.Type, _ arguments: ParsedArguments, of target: TopologyTarget
  ) -> ViewEnding {
    do {
      // The signals must be blocked before the client starts its thread, so that the thread
      // inherits the signal mask.
      let signals = try SignalDescriptor([
        .terminate, .interrupt, .hangUp, .windowSize, .resume,
      ])
      let client = try TopologyClient.attach(to: target)
      let shell = ViewShell(
        view: view,
        feed: ViewFeed(
          client: client, node: arguments.positionals[1],
          arguments.contains(option: "every") ? .every : .latest),
        signals: signals,
        limit: arguments.countValue("count"))
      // The loop does not retain the objects that it calls, so this call keeps the shell alive.
      return withExtendedLifetime(shell) { shell.run() }
    } catch {
      return .failed("\(error)", code: (error as? TopologyClientError)?.exitCode ?? 1)
    }
  }
}

extension ViewEnding {
  fileprivate var isError: Bool {
    switch self {
    case .failed, .stateTypeMismatch: true
    case .quit, .terminalClosed, .nodeDown, .topologyDown: false
    }
  }
}

/// A topology that a view starts from a file, and stops when the view ends.
struct ViewedTopology {
  /// The topology's name.
  let name: String
  private let file: String
  private let wasRunning: Bool

  /// The reason why the topology of a file cannot be viewed.
  struct LaunchError: Error, CustomStringConvertible {
    var description: String
    var code: Int32
  }

  /// Starts the topology and waits for its nodes. Does nothing if the topology is already running.
  init(file: String) throws {
    let name = try TopologyReader.read(path: file).topology.name
    self.name = name
    self.file = file
    wasRunning = RunningTopology.find(try RuntimeDirectories(topology: name)) != nil
    if wasRunning { return }
    let code = try Self.runOrchestrator("up", "--wait", file)
    guard code == 0 else {
      throw LaunchError(
        description: "topology '\(name)' of '\(file)' could not be started", code: code)
    }
  }

  /// Stops the topology, unless the topology was already running before the view started.
  func close() throws {
    guard !wasRunning, let directories = try? RuntimeDirectories(topology: name),
      RunningTopology.find(directories) != nil
    else { return }
    let code = try Self.runOrchestrator("down", "-p", name)
    guard code == 0 else {
      throw LaunchError(description: "topology '\(name)' did not stop gracefully", code: code)
    }
  }

  /// Runs the `orchestrator` command and returns its exit code. Uses the executable in the
  /// directory of this program or, if there is none, the executable in `PATH`.
  private static func runOrchestrator(_ words: String...) throws -> Int32 {
    let siblingPath = OwnProcess.executablePath.map {
      FileSystem.parentDirectory(of: $0) + "/orchestrator"
    }
    let program = siblingPath.flatMap { access($0, X_OK) == 0 ? $0 : nil } ?? "orchestrator"
    var arguments = ([program] + words).map { strdup($0) }
    defer { for argument in arguments { free(argument) } }
    arguments.append(nil)
    // The orchestrator's output is redirected to standard error, because standard output is for the
    // view.
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO)
    var pid: pid_t = 0
    let failure = posix_spawnp(&pid, program, &actions, nil, arguments, environ)
    guard failure == 0 else {
      throw LaunchError(
        description: "cannot run '\(program)': \(String(cString: strerror(failure))); install the "
          + "orchestrator beside this program, or in PATH", code: 1)
    }
    var status: Int32 = 0
    while waitpid(pid, &status, 0) < 0, errno == EINTR {}
    return status & 0x7F == 0 ? status >> 8 & 0xFF : 1
  }
}
