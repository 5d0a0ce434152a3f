import Glibc
import PipeRuntimeTestKit

/// The program `CrashingTest FILE`, which tests a topology until SIGKILL ends the program.
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
