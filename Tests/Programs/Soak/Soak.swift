import Glibc
import PipeRuntime

/// Checks with random topologies and random faults that no event is lost, repeated or reordered.
@main
enum Soak {
  static func main() async {
    signal(SIGPIPE, SIG_IGN)
    if SmallDisk.unmountIfRequested(CommandLine.arguments) { return }
    let options: SoakOptions
    do {
      options = try SoakOptions(
        SoakOptions.description.parseOrExit(CommandLine.arguments.dropFirst()),
        seed: UInt64.random(in: 1...999_999))
    } catch {
      error.exit(of: SoakOptions.description.program)
    }
    do {
      if options.isOnHosts {
        if let missingRequirements = HostCluster.missingRequirements() {
          throw SoakFailure(missingRequirements)
        }
        try HostCluster.enterNetworkNamespace()
        var soak = HostsSoak(options)
        exit(try await soak.run() ? 0 : 1)
      }
      if options.isExplored {
        var run = ExploredSoak(options)
        exit(try await run.run() ? 0 : 1)
      }
      var run = SoakRun(options)
      exit(try await run.run() ? 0 : 1)
    } catch {
      StandardError.write("soak: error: \(error)\n")
      exit(1)
    }
  }
}
