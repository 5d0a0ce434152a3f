import Glibc
import PipeRuntime

/// `orchestrator web`
struct Web: Verb {
  let description = VerbDescription(
    "web", "Shows a topology on a page in a browser",
    discussion:
      "It becomes 'inspector web', a program that is installed beside this one, since a web server is no "
      + "part of it. That prints the address of the page, and serves it until ^C: for this machine alone where "
      + "nothing else is said, and for who has the address. docs/INSPECT.md tells more.",
    options: [.topology] + Option.page,
    examples: [
      ("orchestrator web -p shop --read-only", "A page to look at only"),
      ("orchestrator web --socket page.socket", "For 'ssh -L 8080:/path/to/page.socket HOST'"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let inspector = try InspectorProgram.path()
    try console.flush()
    let words =
      [inspector, "web"] + InspectorProgram.words(arguments, of: Option.target + Option.page)
    // It takes this process over, with its terminal.
    var vector: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    execv(inspector, &vector)
    let error = SystemError("execv", on: inspector, code: errno)
    for word in vector { free(word) }
    throw CommandError("the inspector cannot be started: \(error)")
  }
}
