import PipeRuntime

extension HelpText {
  package init(style: Style, columns: Int) {
    self.init(columns: columns) { style.bold($0) }
  }

  /// The page of `orchestrator --help`.
  package func overview(_ verbs: [VerbDescription]) -> String {
    """
    \(heading("Usage:")) orchestrator VERB [OPTIONS] [ARGUMENTS]

    Runs topologies of state machines: a process per node, a ZeroMQ socket pair per pipe.

    \(section("Verbs:", cards(verbs.map { ($0.name, $0.summary) })))

    \(section("Options of most verbs:", cards(options(Option.valuedBeforeVerb + Option.universal))))

    \(section("Exit codes:", cards(Self.exitCodes)))

    'orchestrator help VERB' tells more about one verb.

    """
  }

  private static let exitCodes = [
    ("0", "success, or a graceful stop"),
    ("1", "the run failed, or an event was refused"),
    ("2", "usage, or an invalid topology"),
    ("3", "no such running topology"),
    ("4", "'why': the event is withheld"),
    ("5", "'why': the event's values decide, or only a run can tell"),
    ("6", "'check --explore': the search was not complete, and has found nothing"),
    ("124", "a wait timed out"),
    ("130", "second ^C, forced"),
  ]
}
