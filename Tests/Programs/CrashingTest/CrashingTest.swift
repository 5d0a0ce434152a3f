import Glibc
import PipeRuntimeTestKit

/// A test process that is killed in the middle of a topology's test: `CrashingTest FILE`.
@main
enum CrashingTest {
  static func main() async throws {
    try await withTopology(CommandLine.arguments[1]) { topology in
      let line = Array("\(topology.directory.path)\n".utf8)
      _ = write(STDOUT_FILENO, line, line.count)
      kill(getpid(), SIGKILL)
    }
  }
}
