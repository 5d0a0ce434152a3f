/// The command line of a measurement.
struct Options {
  private(set) var sections: Set<Section> = []
  private(set) var isQuick = false
  private(set) var wantsHelp = false

  static var help: String {
    let list = Section.allCases.map { section in
      "  " + section.rawValue.padded(to: 13) + section.summary
    }
    return """
      usage: benchmarks [--quick] [SECTION…]

      Measures, and prints each figure beside its baseline of the same run. Sections, by default all:
      \(list.joined(separator: "\n"))
      """
  }

  init(parsing arguments: some Sequence<String>) throws(UnknownArgument) {
    for argument in arguments {
      if let section = Section(rawValue: argument) {
        sections.insert(section)
      } else if argument == "--quick" {
        isQuick = true
      } else if argument == "--help" || argument == "-h" {
        wantsHelp = true
      } else {
        throw UnknownArgument(argument: argument)
      }
    }
    if sections.isEmpty { sections = Set(Section.allCases) }
  }
}

/// An argument that is neither a section nor an option.
struct UnknownArgument: Error, CustomStringConvertible {
  let argument: String
  var description: String { "there is no section or option '\(argument)'" }
}
