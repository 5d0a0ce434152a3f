import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Processes that nodes start", .timed)
struct HelperProcessTests {
  /// A node program that starts three helpers: one in the node's process group, one in a session of
  /// its own, and a daemon whose parent has ended.
  private static let program = """
    #!/bin/sh
    if [ "$1" != describe ]; then
      ( exec sleep 1001 ) < /dev/null > /dev/null 2>&1 &
      echo $! >> "$PIPERUNTIME_ROOT/helpers"
      setsid sh -c 'echo $$ >> "$PIPERUNTIME_ROOT/helpers"; exec sleep 1002' < /dev/null > /dev/null 2>&1 &
      setsid sh -c 'sh -c "echo \\$\\$ >> $PIPERUNTIME_ROOT/helpers; exec sleep 1003" & exit 0' < /dev/null > /dev/null 2>&1
    fi
    exec TestNodes "$@"
    """

  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      helped: { machine: Button, program: ./helped.sh, restart: { backoff: { initial: 20ms } } }
      other: { machine: Button }
    """

  private func with(_ body: (DetachedTopology) async throws -> Void) async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.environment["PATH"] = CommandLineTool.products + ":/usr/local/bin:/usr/bin:/bin"
      try tool.directory.write(Self.program, to: "helped.sh", mode: 0o700)
      let ward = try DetachedTopology(tool: tool, name: "ward", yaml: Self.ward)
      try await ward.up()
      try await body(ward)
    }
  }

  /// Waits until N helpers have written their pids.
  private func helpers(_ count: Int, of ward: DetachedTopology) async throws -> [Int32] {
    let path = ward.tool.directory.path + "/helpers"
    let found: [Int32]? = try await poll(within: .seconds(20)) {
      let pids = (FileSystem.text(of: path) ?? "").split(separator: "\n").compactMap { Int32($0) }
      return pids.count >= count ? pids : nil
    }
    return try #require(found)
  }

  private func expectEnd(of pids: some Sequence<Int32>) async throws {
    let haveEnded: Bool? = try await poll(within: .seconds(20)) {
      pids.allSatisfy { kill($0, 0) != 0 } ? true : nil
    }
    let left = pids.filter { kill($0, 0) == 0 }
    #expect(haveEnded == true, "\(left) live on")
  }

  @Test(
    "Helper processes end with their node's process, even if they have separate sessions"
  )
  func nodeDies() async throws {
    try await with { ward in
      let first = try await helpers(3, of: ward)
      let pid = try #require(try await ward.pids()["helped"])
      #expect(kill(pid, SIGKILL) == 0)
      try await ward.await("'helped' is started again") {
        $0[node: "helped"]?.isRunning == true && $0[node: "helped"]?.pid != pid
      }
      try await expectEnd(of: first)
      let second = try await helpers(6, of: ward).suffix(3)
      #expect(second.allSatisfy { kill($0, 0) == 0 })
      try await ward.run("stop", "helped")
      try await expectEnd(of: second)
      #expect(try await ward.directory()[node: "other"]?.isRunning == true)
    }
  }

  @Test("Helper processes end with their adopted node or with their orphaned topology")
  func orchestratorDies() async throws {
    try await with { ward in
      let first = try await helpers(3, of: ward)
      try await ward.killOrchestrator()
      #expect(first.allSatisfy { kill($0, 0) == 0 })
      #expect(try await ward.up().contains("2 nodes adopted"))
      let pid = try #require(try await ward.pids()["helped"])
      #expect(kill(pid, SIGKILL) == 0)
      try await expectEnd(of: first)
      let second = try await helpers(6, of: ward).suffix(3)
      try await ward.killOrchestrator()
      try await ward.run("down")
      try await expectEnd(of: second)
    }
  }

  @Test(
    "As process 1 of a container, the orchestrator reaps orphaned helpers",
    .enabled(if: geteuid() == 0, "needs root, for a container of its own"))
  func orphans() async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.environment["PATH"] = CommandLineTool.products + ":/usr/local/bin:/usr/bin:/bin"
      try tool.directory.write(
        """
        #!/bin/sh
        if [ "$1" != describe ]; then
          ( for i in 1 2 3 4 5; do setsid sh -c 'sleep 0.1 & exit 0'; done; echo > "$PIPERUNTIME_ROOT/done"
          ) < /dev/null > /dev/null 2>&1 &
        fi
        exec TestNodes "$@"
        """, to: "helped.sh", mode: 0o700)
      try tool.directory.write(
        "topology: ward\nnodes: { helped: { machine: Button, program: ./helped.sh } }\n",
        to: "ward.yaml")
      let run = try tool.start(
        program: "/usr/bin/unshare",
        ["--pid", "--fork", "--mount-proc", "--kill-child", CommandLineTool.orchestrator]
          + ["run", "--plain", "ward.yaml"])
      let path = tool.directory.path + "/done"
      let isDone: Bool? = try await poll(within: .seconds(60)) {
        FileSystem.exists(path) && run.outputText.contains("1 node running") ? true : nil
      }
      #expect(isDone == true, "\(run.outputText)\(run.errorText)")
      let first = try #require(Self.children(of: run.pid).first)
      let areReaped: Bool? = try await poll(within: .seconds(20)) {
        Self.children(of: first).count == 1 ? true : nil
      }
      #expect(areReaped == true, "\(Self.children(of: first)) below process 1")
      kill(first, SIGTERM)
      try await tool.end(of: run, within: .seconds(60))
    }
  }

  private static func children(of parent: Int32) -> [Int32] {
    FileSystem.entryNames(of: "/proc").compactMap(Int32.init).filter { pid in
      let fields = FileSystem.text(of: "/proc/\(pid)/stat")?.split(separator: ") ").last?
        .split(separator: " ")
      return fields.flatMap { $0.count > 1 ? Int32($0[1]) : nil } == parent
    }
  }
}
