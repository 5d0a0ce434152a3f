import Glibc
import PipeRuntime

/// `orchestrator web`
struct Web: Verb {
  let description = VerbDescription(
    "web", "Shows a topology on a page in a browser",
    discussion:
      "It becomes 'inspector web', a program that is installed beside this one, since a web server is no "
      + "part of it. That prints the address of the page, and serves it until ^C: for this machine alone, "
      + "and for who has the address. docs/INSPECT.md tells more.",
    options: [
      .topology,
      Option("port", value: .count("PORT"), "Where it listens; 0 is any that is free. Default: 0"),
      Option("read-only", "Takes no events, and changes no dead letters"),
    ],
    examples: [("orchestrator web -p shop --read-only", "A page to look at only")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let inspector = try InspectorProgram.path()
    try console.flush()
    var words = [inspector, "web"]
    for option in arguments.options
    where description.options.contains(where: { $0.long == option.name }) {
      words += option.value.isEmpty ? ["--\(option.name)"] : ["--\(option.name)", option.value]
    }
    // It takes this process over, with its terminal.
    var vector: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    execv(inspector, &vector)
    let error = SystemError("execv", on: inspector, code: errno)
    for word in vector { free(word) }
    throw CommandError("the inspector cannot be started: \(error)")
  }
}
