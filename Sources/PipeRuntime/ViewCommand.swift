import Glibc
import PipeClient
import PipeSupport

/// `PROGRAM view VIEW NODE`
struct ViewCommand {
  let program: String
  let views: [any TerminalView.Type]

  /// What the command line asks for.
  struct Arguments: Hashable {
    var view: String
    var node: String
    var topology: String?
    /// The appearances after which it ends, where they are printed.
    var limit: Int?
  }

  /// What is wrong with a command line.
  struct UsageError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
  }

  /// Reads what follows `view`.
  static func parse(_ rest: some Sequence<String>) throws(UsageError) -> Arguments {
    var names: [String] = []
    var topology: String?
    var limit: Int?
    var iterator = rest.makeIterator()
    while let argument = iterator.next() {
      switch argument {
      case "-p", "--topology":
        guard let value = iterator.next() else {
          throw UsageError("'\(argument)' needs a topology's name")
        }
        topology = value
      case "-n", "--count":
        guard let value = iterator.next().flatMap(Int.init), value > 0 else {
          throw UsageError("'\(argument)' needs a count of 1 or more")
        }
        limit = value
      default:
        if argument.hasPrefix("-") {
          let known = ["--topology", "--count"]
          throw UsageError(
            "unknown option '\(argument)'"
              + Suggestion.among(known, like: argument, verb: "there are"))
        }
        names.append(argument)
      }
    }
    guard names.count == 2 else {
      throw UsageError("name a view and a node: 'view VIEW NODE'")
    }
    return Arguments(view: names[0], node: names[1], topology: topology, limit: limit)
  }

  /// Shows a view until it ends. Returns the exit code.
  func run(_ arguments: Arguments) throws(UsageError) -> Int32 {
    guard let view = views.first(where: { $0.name == arguments.view }) else {
      throw UsageError(
        "this program has no view '\(arguments.view)'"
          + Suggestion.among(views.map { $0.name }, like: arguments.view, verb: "it has"))
    }
    signal(SIGPIPE, SIG_IGN)
    let ending = show(view, arguments)
    if let message = ending.message {
      StandardError.write("\(program): \(ending.isError ? "error: " : "")\(message)\n")
    }
    return ending.exitCode
  }

  private func show(_ view: any TerminalView.Type, _ arguments: Arguments) -> ViewEnding {
    do {
      // Before the client's thread starts: it inherits the mask.
      let signals = try SignalDescriptor([
        .terminate, .interrupt, .hangUp, .windowSize, .resume,
      ])
      let directories = try RunningTopology.choose(arguments.topology)
      let client = try TopologyClient(
        topology: directories.topology, control: directories.endpoint(.control))
      let shell = ViewShell(
        view: view, feed: ViewFeed(client: client, node: arguments.node), signals: signals,
        limit: arguments.limit)
      // The loop does not keep alive whom it calls back.
      return withExtendedLifetime(shell) { shell.run() }
    } catch {
      return .failed("\(error)", code: (error as? TopologyClientError)?.exitCode ?? 1)
    }
  }
}

extension ViewEnding {
  fileprivate var isError: Bool {
    switch self {
    case .failed, .otherStates: true
    case .quit, .terminalClosed, .nodeDown, .topologyDown: false
    }
  }
}
