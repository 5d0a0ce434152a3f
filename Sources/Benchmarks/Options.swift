import PipeRuntime

/// The command line of a measurement.
struct Options {
  let sections: Set<Section>
  let isQuick: Bool
  /// The file to which the figures are written.
  let output: String?
  /// The file of an earlier run.
  let comparison: String?

  static let description = CommandDescription(
    of: "benchmarks", "Measures, and prints each figure beside its baseline of the same run",
    options: [
      Option("quick", "Measures for a shorter time"),
      Option("output", value: .file, "Writes the figures to FILE, as JSON"),
      Option(
        "compare", value: .file,
        "Prints beside each figure that of FILE, which an earlier run has written, and how many times "
          + "that it is"),
    ],
    positionals: [
      Positional(
        "SECTION", .choice("SECTION", Section.allCases.map(\.rawValue)), .any,
        "What is measured. Default: all")
    ], examples: Section.allCases.map { ("benchmarks \($0.rawValue)", $0.summary) })

  init(_ arguments: ParsedArguments) {
    let named = arguments.positionals.compactMap(Section.init)
    sections = Set(named.isEmpty ? Section.allCases : named)
    isQuick = arguments.flag("quick")
    output = arguments.value("output")
    comparison = arguments.value("compare")
  }
}
