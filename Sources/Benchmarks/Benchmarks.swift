import Glibc
import PipeRuntime

/// Measures speed and memory of nodes and machines, each beside a raw baseline of the same run.
///
/// The program is also the node program of the machines that it measures.
@main enum Benchmarks {
  static func main() {
    switch CommandLine.arguments.dropFirst().first {
    case "run", "describe", "list": BenchmarkNodes.main()
    case RawPeer.verb: RawPeer.main(CommandLine.arguments.dropFirst(2))
    default: exit(measure())
    }
  }

  private static func measure() -> Int32 {
    let options = Options(Options.description.parseOrExit(CommandLine.arguments.dropFirst()))
    do {
      // Before any thread starts: they inherit the mask.
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

/// The machines that topologies of this program run.
enum BenchmarkNodes: NodeProgram {
  static let machines: [any Machine.Type] = [
    Lamp.self, Pinger.self, Ponger.self, Source.self, Sink.self, Juggler.self, Hub.self,
  ]
}
