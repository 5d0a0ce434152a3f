import Glibc
import PipeRuntime

/// The `orchestrator` command.
@main
enum Orchestrator {
  static func main() {
    // If SIGPIPE is ignored, a write to stdout fails when the reader has closed the stream. This
    // process then ends without a message.
    signal(SIGPIPE, SIG_IGN)
    // Each watched process requires a descriptor, and some verbs watch all nodes of a topology.
    OpenFileLimit.raise()
    let arguments = Array(CommandLine.arguments.dropFirst())
    exit(MainThread.run { await run(arguments, console: Console()) }.rawValue)
  }

  /// Runs one command line, reports errors on stderr, and returns the exit code.
  static func run(_ arguments: [String], console: Console) async -> ExitCode {
    defer { console.drain() }
    do {
      let invocation = try ArgumentParser(verbs: Verbs.all).parse(arguments)
      if invocation.arguments.contains(option: "no-color") { console.disableColor() }
      let code = try await invocation.run(console: console)
      try console.flush()
      return code
    } catch is ConsoleClosedError {
      return .success
    } catch let error as UsageError {
      return fail(error.code, error.description, console: console)
    } catch let error as CommandError {
      return fail(error.code, error.message, console: console)
    } catch let error as TopologyErrors {
      for diagnostic in error.diagnostics { console.diagnostic(diagnostic) }
      return .usage
    } catch let error as TopologyClientError {
      let code = ExitCode(rawValue: error.exitCode)
      // The topology may be running under another runtime root, which another session of the user
      // has selected.
      let note = code == .notRunning ? RuntimeRoots().fallbackNote.map { "\n\($0)" } : nil
      return fail(code, error.description + (note ?? ""), console: console)
    } catch let error as DirectoryError {
      return fail(.failure, error.description, console: console)
    } catch {
      return fail(.failure, "\(error)", console: console)
    }
  }

  private static func fail(_ code: ExitCode, _ message: String, console: Console) -> ExitCode {
    // Writes results that were produced before the failure.
    try? console.flush()
    console.error(message)
    return code
  }
}

/// Every verb, in the order of the help page.
package enum Verbs {
  package static let all: [any Verb] = [
    Init(), Check(), Test(), Run(), Record(), Conform(), ReplayRun(), Up(), Submit(), Apply(),
    Down(),
    List(),
    Processes(), Status(),
    Pipe(),
    NodeControlVerb.start,
    NodeControlVerb.stop, NodeControlVerb.restart, Kill(), Send(), Wait(), Logs(), MonitorNodes(),
    ShowScreen(),
    TraceRun(),
    Web(),
    Describe(), ShowGraph(), Why(), ShowJournal(), ListInstances(),
    DeadLetterCommand(), Reset(), Backup(), Restore(), Config(), Export(), InstallService(),
    Agent(), Probe(),
    Schema(), Completion(),
    ShowVersion(),
    Help(),
  ]

  /// The former names of verbs. Version 0.4 will no longer accept them.
  static let formerNames = ["letters": "dead-letters"]

  package static var descriptions: [VerbDescription] { all.map(\.description) }
}

/// The exit codes of the command. docs/COMMANDS.md contains a table of them.
package struct ExitCode: RawRepresentable, Hashable, Sendable {
  package let rawValue: Int32
  package init(rawValue: Int32) { self.rawValue = rawValue }

  package static let success = ExitCode(rawValue: 0)
  /// The run or a test has failed, the search has found an error, or an event was refused.
  package static let failure = ExitCode(rawValue: 1)
  /// Wrong usage, or an invalid topology.
  package static let usage = ExitCode(rawValue: 2)
  /// The topology is not running.
  package static let notRunning = ExitCode(rawValue: 3)
  /// `why`: the event is blocked.
  package static let notEnabled = ExitCode(rawValue: 4)
  /// `why`: the answer depends on the event's associated values, or is known only after the event
  /// is sent.
  package static let dependsOnValue = ExitCode(rawValue: 5)
  /// `check --explore`: the search was incomplete, and has found no error.
  package static let incomplete = ExitCode(rawValue: 6)
  package static let timedOut = ExitCode(rawValue: 124)
}

/// The error of a verb, in words for the user.
package struct CommandError: Error, Hashable {
  package let message: String
  package let code: ExitCode

  package init(_ message: String, code: ExitCode = .failure) {
    self.message = message
    self.code = code
  }
}

extension CommandError: CustomStringConvertible {
  package var description: String { message }
}

/// Errors that several verbs report.
extension CommandError {
  package static let noTopologyHasRun = CommandError(
    "no topology has run on this host yet", code: .notRunning)

  /// Returns the error for a node without a process, which cannot receive a signal.
  package static func noProcess(of node: String, phase: String) -> CommandError {
    CommandError("node '\(node)' has no process: the node is \(phase)")
  }

  /// Returns the error for a verb that must run on the host of the orchestrator.
  /// - Parameter errorPrefix: The first words of the message, such as `'orchestrator journal' reads
  ///   the nodes' journals`.
  package static func onOtherHost(
    _ errorPrefix: String, endpoint: String, topology: String
  ) -> CommandError {
    CommandError(
      "\(errorPrefix) on the host of the orchestrator at \(endpoint); run the command on that "
        + "host, with -p \(topology)", code: .usage)
  }

  /// Returns the error for a name that belongs to no node that has run.
  package static func unknownNode(
    _ node: String, of topology: String, known: [String]
  ) -> CommandError {
    CommandError(
      "no node '\(node)' of topology '\(topology)' has run on this host"
        + (known.isEmpty ? "" : Suggestion.among(known, like: node, verb: "there are")),
      code: .usage)
  }
}
