import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("Parsed command lines", .timed)
struct ArgumentParserTests {
  private func parse(_ line: [String]) throws -> Invocation {
    try ArgumentParser(verbs: Verbs.all).parse(line)
  }

  @Test(
    "Options are parsed in every spelling and position",
    arguments: [
      ["-p", "lift", "logs", "-n", "5", "-f", "door"],
      ["logs", "door", "--topology=lift", "--lines=5", "--follow"],
      ["logs", "-fn5", "-plift", "--", "door"],
      ["--topology", "lift", "logs", "-n=5", "--follow", "door"],
      ["logs", "-n", "9", "-n", "5", "-f", "-p", "other", "-p", "lift", "door"],
    ])
  func spellings(line: [String]) throws {
    let invocation = try parse(line)
    #expect(invocation.verb.description.name == "logs")
    #expect(invocation.arguments.topology == "lift")
    #expect(invocation.arguments.countValue("lines") == 5)
    #expect(invocation.arguments.contains(option: "follow"))
    #expect(invocation.arguments.positionals == ["door"])
  }

  @Test("An argument after '--' is never an option")
  func terminator() throws {
    #expect(try parse(["send", "--", "door", "-x"]).arguments.positionals == ["door", "-x"])
  }

  @Test("Option values are parsed to their types")
  func typed() throws {
    #expect(try parse(["kill", "-s", "stop", "a"]).arguments.signal("signal") == .stop)
    #expect(
      try parse(["wait", "--timeout", "1.5s", "a=b"]).arguments.duration("timeout")
        == .milliseconds(1500))
    #expect(try parse(["ls", "-o", "jsonl"]).arguments.format == .jsonl)
    #expect(try parse(["ls"]).arguments.format == .text)
  }

  @Test(
    "An invalid command line causes an error that says what to do",
    arguments: [
      ([], .missingVerb(of: "orchestrator")),
      (["udp"], .unknownVerb("udp", suggestion: "up", of: "orchestrator")),
      (["mon"], .unknownVerb("mon", suggestion: "monitor", of: "orchestrator")),
      (["frobnicate"], .unknownVerb("frobnicate", suggestion: nil, of: "orchestrator")),
      (["ls", "--quite"], .unknownOption("--quite", suggestion: "--quiet", of: "orchestrator ls")),
      (["ls", "-z"], .unknownOption("-z", suggestion: nil, of: "orchestrator ls")),
      (["kill", "door", "-s"], .missingValue(option: "-s", placeholder: "SIGNAL")),
      (["kill", "-s", "NOPE", "door"], .invalid("-s", "NOPE", .signal)),
      (["ls", "--quiet=yes"], .unexpectedValue(option: "--quiet", value: "yes")),
      (["logs", "-n", "-1"], .invalid("-n", "-1", .count("N"))),
      (["wait", "--timeout", "10", "a=b"], .invalid("--timeout", "10", .duration)),
      (["ls", "-o", "jsn"], .invalid("-o", "jsn", .choice("FORMAT", ["text", "json", "jsonl"]))),
      (["kill"], .missingPositional("NODE", of: "orchestrator kill")),
      (["config", "a", "b"], .extraPositional("b", of: "orchestrator config")),
      (["run", "a", "b/c"], .invalid("NODE", "b/c", .node)),
      (["logs", "a/b"], .invalid("NODE", "a/b", .node)),
      (
        ["completion", "tcsh"],
        .invalid("SHELL", "tcsh", .choice("SHELL", ["bash", "zsh", "fish"]))
      ),
    ] as [([String], UsageError)])
  func errors(line: [String], error: UsageError) {
    #expect(throws: error) { try parse(line) }
    #expect(error.code == .usage)
  }

  @Test("'VERB --help' is parsed as help for the verb, even where required arguments are missing")
  func help() throws {
    let invocation = try parse(["kill", "--help"])
    #expect(invocation.verb.description.name == "help")
    #expect(invocation.arguments.positionals == ["kill"])
    #expect(try parse(["--help"]).verb.description.name == "help")
    #expect(try parse(["-V"]).verb.description.name == "version")
  }

  /// The current time: 2026-11-20 14:30:05.250 in UTC.
  private static let now = Timestamp("2026-11-20T14:30:05.250Z")!

  @Test(
    "A time can be given as an age, or as a date and time with a zone",
    arguments: [
      ("5m", "2026-11-20T14:25:05.250Z"), ("1500ms", "2026-11-20T14:30:03.750Z"),
      ("2026-11-19T08:09Z", "2026-11-19T08:09:00.000Z"),
      ("2026-11-19 08:09:10Z", "2026-11-19T08:09:10.000Z"),
      ("2026-11-19T08:09:10.123+01:30", "2026-11-19T06:39:10.123Z"),
      ("2026-12-31T23:00-02:00", "2027-01-01T01:00:00.000Z"), ("2026-02-30T00:00Z", nil),
      ("2026-11-19T24:00Z", nil), ("2026-11-19T", nil), ("2026-11-19T08:09+1", nil),
      ("2026-11-19x", nil), ("08:09Z", nil), ("8:09", nil), ("08:09:10.1", nil), ("5", nil),
      ("yesterday", nil), ("", nil),
    ] as [(String, String?)])
  func moments(text: String, moment: String?) {
    #expect(MomentArgument.parse(text, now: Self.now)?.description == moment)
  }

  @Test("A time without a zone is local time, and a time without a date is today")
  func localMoments() throws {
    let local = Self.now.localText
    #expect(MomentArgument.parse(local, now: Self.now) == Self.now)
    let time = try #require(local.split(separator: " ").last)
    #expect(MomentArgument.parse(String(time), now: Self.now) == Self.now)
    let midnight = try #require(
      MomentArgument.parse(String(local.prefix(10)), now: Self.now))
    #expect(midnight.localText == local.prefix(10) + " 00:00:00.000")
  }

  @Test("Every verb has a summary, an example that parses, and distinct option names")
  func descriptions() throws {
    for verb in Verbs.descriptions {
      #expect(!verb.summary.isEmpty && !verb.summary.hasSuffix("."))
      #expect(verb.name == "help" || !verb.examples.isEmpty)
      #expect(Set(verb.allOptions.map(\.long)).count == verb.allOptions.count)
      let shorts = verb.allOptions.compactMap(\.short)
      #expect(Set(shorts).count == shorts.count)
    }
  }
}
