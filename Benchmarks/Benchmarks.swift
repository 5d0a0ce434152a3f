import Glibc
import PipeRuntime

/// Measures the speed and memory of nodes and machines, next to a raw baseline of the same run.
///
/// The program is also the node program of the measured machines.
@main enum Benchmarks {
  static func main() {
    switch CommandLine.arguments.dropFirst().first {
    case "run", "describe", "list", "explore", "try-journals": BenchmarkNodes.main()
    case RawPeer.verb: RawPeer.main(CommandLine.arguments.dropFirst(2))
    default: exit(measure())
    }
  }

  private static func measure() -> Int32 {
    let options = Options(Options.description.parseOrExit(CommandLine.arguments.dropFirst()))
    do {
      // Block the signals before any thread starts, so that every thread inherits the mask.
      try Cleanup.watchSignals()
      signal(SIGPIPE, SIG_IGN)
      var report = Report(comparedWith: try options.comparison.map(BenchmarkRecord.init(file:)))
      for section in Section.allCases where options.sections.contains(section) {
        try section.run(Setting(isQuick: options.isQuick), into: &report)
      }
      try report.finish(options.output)
      return 0
    } catch {
      StandardError.write("benchmarks: error: \(error)\n")
      return 1
    }
  }
}

/// The machines that the measured topologies run.
enum BenchmarkNodes: NodeProgram {
  static let machines: [any Machine.Type] = [
    Lamp.self, Pinger.self, Ponger.self, Source.self, Sink.self, Juggler.self, Hub.self,
    KeySource.self, Visitor.self,
    Archive.self,
  ]
}

/// The command line of a measurement.
struct Options {
  let sections: Set<Section>
  let isQuick: Bool
  /// The file to which the figures are written; `nil` for none.
  let output: String?
  /// The file with the figures of an earlier run, for comparison; `nil` for none.
  let comparison: String?

  static let description = CommandDescription(
    of: "benchmarks", "Measures, and prints each figure beside its baseline of the same run",
    options: [
      Option("quick", "Measures for a shorter time"),
      Option("output", value: .file, "Writes the figures to FILE, as JSON"),
      Option(
        "compare", value: .file,
        "Prints beside each figure the figure of an earlier run in FILE, and the ratio"),
    ],
    positionals: [
      Positional(
        "SECTION", .choice("SECTION", Section.allCases.map(\.rawValue)), .any,
        "What is measured. Default: all")
    ], examples: Section.allCases.map { ("benchmarks \($0.rawValue)", $0.summary) })

  init(_ arguments: ParsedArguments) {
    let named = arguments.positionals.compactMap(Section.init)
    sections = Set(named.isEmpty ? Section.allCases : named)
    isQuick = arguments.contains(option: "quick")
    output = arguments.value("output")
    comparison = arguments.value("compare")
  }
}

/// A section of the report. The raw value is the name on the command line.
enum Section: String, CaseIterable, Sendable {
  case roundtrip, oneway, durability, synchronized, start, restart, recovery, memory, endurance
  case watched, inspected, recording, coding, growth, commands, peers, reduce, steady, styles
  case largeStates = "large-states"
  case explore, network, slurm, agents, instances, upgrades

  /// A sentence that says what the section measures.
  var summary: String {
    switch self {
    case .roundtrip: "one event from a node to another and back"
    case .oneway: "events a second from a node to another"
    case .durability: "what a journal costs a pipe and a round trip"
    case .synchronized: "events that several nodes take together"
    case .restart: "how soon a node that was killed is ready again"
    case .recovery: "how soon a topology runs again after half of its nodes were killed"
    case .endurance: "whether memory and journals stop growing"
    case .start: "how soon a node, and a hundred, are ready"
    case .memory: "what a node holds resident"
    case .watched: "what a monitor costs a node at full rate"
    case .inspected: "what a page in a browser costs nodes at full rate"
    case .recording: "what it costs to record a run, and how fast it is checked and replayed"
    case .coding: "what it costs to write and read an event"
    case .growth: "what more nodes do to the rate and to the cost of an event"
    case .commands: "how long starting, listing and stopping take with more nodes"
    case .peers: "Erlang and supervisord beside ours"
    case .reduce: "steps and events a second within one process"
    case .steady: "what a step within one process costs in the long run"
    case .styles: "what each style of writing a machine costs"
    case .instances: "a node with an instance of its machine for each key"
    case .largeStates: "steps a second with a large state"
    case .upgrades: "what upgrades and backups cost a running topology"
    case .network: "what tcp and keys cost a pipe and a round trip"
    case .slurm:
      "how soon nodes are ready on the hosts of a Slurm job, and again when they or a host are lost"
    case .agents: "how soon nodes are ready that agents start, as in pods of Kubernetes'"
    case .explore: "how fast all states of a topology are searched"
    }
  }

  func run(_ setting: Setting, into report: inout Report) throws {
    report.begin(self)
    defer { report.end() }
    switch self {
    case .roundtrip: try RoundTripSection(setting).run(&report)
    case .oneway: try OneWaySection(setting).run(&report)
    case .durability: try DurabilitySection(setting).run(&report)
    case .synchronized: try SynchronizedSection(setting).run(&report)
    case .restart: try RestartSection(setting).run(&report)
    case .recovery: try RecoverySection(setting).run(&report)
    case .endurance: try EnduranceSection(setting).run(&report)
    case .start: try StartSection(setting).run(&report)
    case .memory: try MemorySection(setting).run(&report)
    case .watched: try WatchedSection(setting).run(&report)
    case .inspected: try InspectedSection(setting).run(&report)
    case .recording: try RecordingSection(setting).run(&report)
    case .coding: try CodingSection(setting).run(&report)
    case .growth: try GrowthSection(setting).run(&report)
    case .commands: try CommandsSection(setting).run(&report)
    case .peers: try PeersSection(setting).run(&report)
    case .reduce: ReduceSection(setting).run(&report)
    case .steady: SteadySection(setting).run(&report)
    case .styles: StylesSection(setting).run(&report)
    case .explore: try SearchSection(setting).run(&report)
    case .slurm: try SlurmSection(setting).run(&report)
    case .agents: try AgentsSection(setting).run(&report)
    case .instances: try InstancesSection(setting).run(&report)
    case .largeStates: try LargeStatesSection(setting).run(&report)
    case .upgrades: try UpgradesSection(setting).run(&report)
    case .network: try NetworkSection(setting).run(&report)
    }
  }
}

/// The scale of a run: full or quick.
struct Setting: Sendable {
  let isQuick: Bool

  /// Returns the first amount for a full run, and the second for a quick run.
  func pick<Amount>(_ full: Amount, quick: Amount) -> Amount { isQuick ? quick : full }
}
