import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Signals ignored by the parent process", .timed)
struct InheritedSignalTests {
  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      nurse: { machine: Button, restart: { backoff: { initial: 20ms } } }
    """

  /// Runs the topology below a shell that ignores signals.
  private func running(
    ignoring signals: String, _ body: (LaunchedProgram, DetachedTopology) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      let ward = try DetachedTopology(tool: tool, name: "ward", yaml: Self.ward)
      let run = try tool.start(
        program: "/bin/sh",
        [
          "-c", "trap '' \(signals); exec \"$@\"", "sh", CommandLineTool.orchestrator, "run",
          "--plain", "ward.yaml",
        ])
      #expect(try await run.waitForOutput(containing: "1 node running", within: .seconds(60)))
      try await body(run, ward)
    }
  }

  @Test(
    "A run under nohup or in a script's background survives SIGHUP and SIGINT but not SIGTERM",
    arguments: [("HUP", Signal.hangUp), ("INT", .interrupt)])
  func ignored(name: String, signal: Signal) async throws {
    try await running(ignoring: name) { run, ward in
      run.signal(signal)
      // The next request is answered after the signal.
      let pid = try #require(try await ward.pids()["nurse"])
      #expect(kill(pid, SIGKILL) == 0)
      try await ward.await("'nurse' is started again") {
        $0[node: "nurse"]?.isRunning == true && $0[node: "nurse"]?.pid != pid
      }
      run.signal(.terminate)
      try await ward.tool.end(of: run, within: .seconds(60))
    }
  }

  @Test(
    "A run restarts dead nodes and logs their exits even if its parent ignores SIGCHLD and SIGPIPE"
  )
  func children() async throws {
    try await running(ignoring: "CHLD PIPE") { run, ward in
      let pid = try #require(try await ward.pids()["nurse"])
      #expect(kill(pid, SIGKILL) == 0)
      try await ward.await("'nurse' is started again") {
        $0[node: "nurse"]?.isRunning == true && $0[node: "nurse"]?.pid != pid
      }
      #expect(try ward.logs().contains("killed by SIGKILL"))
      run.signal(.interrupt)
      try await ward.tool.end(of: run, within: .seconds(60))
    }
  }

  @Test("A run in the background does not draw its screen until 'fg' gives it the terminal")
  func background() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.ward, to: "ward.yaml")
      let script = """
        set -m; stty tostop
        "$@" & while ! "$0" wait nurse=pressed --timeout 60s > /dev/null 2>&1; do sleep 0.1; done
        for round in 1 2 3 4 5; do "$0" send nurse press > /dev/null; done
        echo "shell: ready"; read line; fg %1
        """
      let terminal = try PseudoTerminal(
        "/bin/bash",
        ["-c", script, CommandLineTool.orchestrator]
          + [CommandLineTool.orchestrator, "run", tool.directory.path + "/ward.yaml"],
        environment: tool.directory.environment(), columns: 80, rows: 24)
      let lines = try await terminal.expect("shell: ready", within: .seconds(60))
      #expect(!lines.joined().contains("NODE"), "\(lines)")
      terminal.type("\r")
      let shown = try await terminal.expect("? help")
      #expect(shown[0].hasPrefix("ward: running"), "\(shown)")
      terminal.type("\u{3}")
      _ = try await terminal.expectEnd()
      #expect(terminal.lines.filter { !$0.isEmpty }.last == "ward: stopped", "\(terminal.lines)")
    }
  }
}
