import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("A terminal that a test looks at", .timed)
struct PseudoTerminalTests {
  /// Shows a time that goes on for ever, by which alone something seems to happen. It starts no processes.
  private static let clock = """
    mkfifo "$0"
    exec 3<> "$0"
    for ((tick = 100000; ; tick++)); do
      printf '\\033[H%s' $tick
      read -t 0.05 <&3
    done
    """
  /// Of each tick. Unit: bytes.
  private static let tickByteCount = 9

  @Test("gives up an expectation that nothing but a clock goes on beside")
  func clock() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let terminal = try PseudoTerminal(
      "/bin/bash", ["-c", Self.clock, directory.path + "/pause"],
      environment: directory.environment())
    try await terminal.expect("10")
    let before = (looks: terminal.lookCount, ticks: terminal.byteCount / Self.tickByteCount)
    await withKnownIssue {
      try await terminal.expect("what never comes", within: .seconds(2))
    }
    let ticks = terminal.byteCount / Self.tickByteCount - before.ticks
    // A tick may come in two parts. What is looked at more often keeps this process busy, which would count as
    // progress.
    let looks = terminal.lookCount - before.looks
    #expect(looks > 1 && looks <= 2 * (ticks + 1), "\(looks) looks, \(ticks) ticks")
  }
}
