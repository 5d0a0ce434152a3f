import PipeRuntime

/// The command line of a measurement.
struct Options {
  let sections: Set<Section>
  let isQuick: Bool

  static let description = CommandDescription(
    of: "benchmarks", "Measures, and prints each figure beside its baseline of the same run",
    options: [Option("quick", "Measures for a shorter time")],
    positionals: [
      Positional(
        "SECTION", .choice("SECTION", Section.allCases.map(\.rawValue)), .any,
        "What is measured. Default: all")
    ], examples: Section.allCases.map { ("benchmarks \($0.rawValue)", $0.summary) })

  init(_ arguments: ParsedArguments) {
    let named = arguments.positionals.compactMap(Section.init)
    sections = Set(named.isEmpty ? Section.allCases : named)
    isQuick = arguments.flag("quick")
  }
}
