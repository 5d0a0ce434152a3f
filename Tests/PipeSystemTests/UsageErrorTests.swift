import PipeSystem
import Testing

@Suite("The wording of errors in a command line")
struct UsageErrorTests {
  @Test(
    "Each error says what is wrong, and what to write instead",
    arguments: [
      (.missingVerb(of: "nodes"), "missing verb\nTry 'nodes --help'."),
      (
        .unknownVerb("udp", suggestion: "up", of: "orchestrator"),
        "unknown verb 'udp'. Did you mean 'up'?\nTry 'orchestrator --help'."
      ),
      (
        .unknownOption("-z", suggestion: nil, of: "orchestrator ls"),
        "unknown option '-z'\nTry 'orchestrator ls --help'."
      ),
      (
        .missingValue(option: "-s", placeholder: "SIGNAL"),
        "option '-s' requires a value: -s SIGNAL"
      ),
      (
        .unexpectedValue(option: "--quiet", value: "yes"),
        "option '--quiet' takes no value, but was given 'yes'"
      ),
      (
        .invalidValue(for: "-n", value: "x", expected: "must be an integer"),
        "invalid value 'x' for -n: must be an integer"
      ),
      (
        .missingOption("--topology", of: "nodes run"),
        "option '--topology' is missing\nTry 'nodes run --help'."
      ),
      (
        .missingPositional("NODE", of: "orchestrator kill"),
        "NODE is missing\nTry 'orchestrator kill --help'."
      ),
      (
        .extraPositional("b", of: "orchestrator config"),
        "unexpected argument 'b'\nTry 'orchestrator config --help'."
      ),
      (.conflict("--ui", "--service"), "--ui and --service cannot be used together"),
    ] as [(UsageError, String)])
  func errors(error: UsageError, text: String) {
    #expect(error.description == text)
  }

  @Test(
    "The reason to reject a value says which values are valid",
    arguments: [
      (.text("PATH"), "", "must not be empty"),
      (.count("N", from: 1), "0", "must be an integer of at least 1"),
      (.duration, "10", "has no unit; write 10s, 10ms or 10m"),
      (
        .moment, "soon",
        "must be an age such as 5m, or a time such as 14:30, '2026-11-20 14:30' or "
          + "2026-11-20T14:30:00Z"
      ),
      (.choice("SHELL", ["bash", "zsh"]), "bsh", "must be one of bash, zsh. Did you mean 'bash'?"),
      (.node, "a/b", "names consist of the characters A-Z a-z 0-9 _ . -"),
      (
        .nodeOrInstance, "a[]",
        "names consist of the characters A-Z a-z 0-9 _ . -, and instances are NODE[KEY]"
      ),
      (.endpoint, "tcp://host", "must have the form tcp://HOST:PORT"),
      (.signal, "NOPE", "must be a signal such as TERM, SIGKILL or 9"),
    ] as [(ValueKind, String, String)])
  func values(kind: ValueKind, value: String, text: String) {
    #expect(kind.problem(with: value) == text)
  }
}
