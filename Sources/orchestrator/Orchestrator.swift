import Glibc
import PipeRuntime

/// The `orchestrator` command.
@main
enum Orchestrator {
  static func main() {
    // If the reader of stdout has gone, a write fails, and this process ends quietly.
    signal(SIGPIPE, SIG_IGN)
    // Each watched process takes a descriptor, and some verbs watch all nodes of a topology.
    OpenFileLimit.raise()
    let arguments = Array(CommandLine.arguments.dropFirst())
    exit(MainThread.run { await run(arguments, console: Console()) }.rawValue)
  }

  /// Runs one command line, reports errors on stderr, and returns the exit code.
  static func run(_ arguments: [String], console: Console) async -> ExitCode {
    defer { console.drain() }
    do {
      let invocation = try ArgumentParser(verbs: Verbs.all).parse(arguments)
      if invocation.arguments.flag("no-color") { console.disableColor() }
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
      // The topology may run under a runtime root that only another session uses.
      let note = code == .notRunning ? RuntimeRoots().fallbackNote.map { "\n\($0)" } : nil
      return fail(code, error.description + (note ?? ""), console: console)
    } catch let error as DirectoryError {
      return fail(.failure, error.description, console: console)
    } catch {
      return fail(.failure, "\(error)", console: console)
    }
  }

  private static func fail(_ code: ExitCode, _ message: String, console: Console) -> ExitCode {
    // Results from before the failure come first.
    try? console.flush()
    console.error(message)
    return code
  }
}

/// Every verb, in the order of the help page.
package enum Verbs {
  package static let all: [any Verb] = [
    Init(), Check(), Test(), Run(), Up(), Submit(), Apply(), Down(), List(), Processes(), Status(),
    Pipe(),
    Steer.start,
    Steer.stop, Steer.restart, Kill(), Send(), Wait(), Logs(), MonitorNodes(), ShowScreen(),
    TraceRun(),
    Web(),
    Describe(), ShowGraph(), Why(), ShowJournal(), ListInstances(),
    DeadLetterCommand(), Reset(), Config(), Export(), Agent(), Probe(), Schema(), Completion(),
    ShowVersion(),
    Help(),
  ]

  /// The names of verbs before version 0.3, which stay accepted until version 0.4.
  static let formerNames = ["letters": "dead-letters"]

  package static var descriptions: [VerbDescription] { all.map(\.description) }
}

/// The exit codes of the command; the table is in docs/COMMANDS.md.
package struct ExitCode: RawRepresentable, Hashable, Sendable {
  package let rawValue: Int32
  package init(rawValue: Int32) { self.rawValue = rawValue }

  package static let success = ExitCode(rawValue: 0)
  /// The run or a test failed, there is a finding, or an event was refused.
  package static let failure = ExitCode(rawValue: 1)
  /// Wrong usage, or an invalid topology.
  package static let usage = ExitCode(rawValue: 2)
  /// The topology does not run.
  package static let notRunning = ExitCode(rawValue: 3)
  /// `why`: the event is blocked.
  package static let notEnabled = ExitCode(rawValue: 4)
  /// `why`: the event's values decide, or only a run can show it.
  package static let dependsOnValue = ExitCode(rawValue: 5)
  /// `check --explore`: the search was incomplete and found nothing.
  package static let incomplete = ExitCode(rawValue: 6)
  package static let timedOut = ExitCode(rawValue: 124)
}

/// A verb's failure, worded for the person at the terminal.
package struct CommandError: Error, Hashable {
  package let message: String
  package let code: ExitCode

  package init(_ message: String, code: ExitCode = .failure) {
    self.message = message
    self.code = code
  }
}
