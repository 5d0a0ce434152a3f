import Glibc
import PipeRuntime

/// The `orchestrator` command.
@main
enum Orchestrator {
  static func main() {
    // A reader that has gone shows as a failed write, and ends this process quietly.
    signal(SIGPIPE, SIG_IGN)
    // Each process that is watched takes one, and some verbs watch all nodes of a topology.
    OpenFileLimit.raise()
    let arguments = Array(CommandLine.arguments.dropFirst())
    exit(MainThread.run { await run(arguments, console: Console()) }.rawValue)
  }

  /// Runs one command line, says what went wrong on stderr, and returns the exit code.
  static func run(_ arguments: [String], console: Console) async -> ExitCode {
    defer { console.drain() }
    do {
      let invocation = try ArgumentParser(verbs: Verbs.all).parse(arguments)
      if invocation.arguments.flag("no-color") { console.disableColor() }
      let code = try await invocation.run(console: console)
      try console.flush()
      return code
    } catch is ConsoleClosed {
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
      // It may run where another session looks.
      let note = code == .notRunning ? RuntimeRoots().fallbackNote.map { "\n\($0)" } : nil
      return fail(code, error.description + (note ?? ""), console: console)
    } catch let error as DirectoryError {
      return fail(.failure, error.description, console: console)
    } catch {
      return fail(.failure, "\(error)", console: console)
    }
  }

  private static func fail(_ code: ExitCode, _ message: String, console: Console) -> ExitCode {
    // What was found out before the failure comes first.
    try? console.flush()
    console.error(message)
    return code
  }
}
