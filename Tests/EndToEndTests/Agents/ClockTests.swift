import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// The wall clocks of hosts can be set wrong and never agree exactly. No behavior may depend on
/// them.
@Suite("Nodes on hosts whose clocks differ", .timed)
struct ClockTests {
  /// A library that shifts a program's wall clock by SHIFT seconds. All other clocks are the
  /// system's.
  private static let shiftedClock = """
    #define _GNU_SOURCE
    #include <stdlib.h>
    #include <sys/syscall.h>
    #include <sys/time.h>
    #include <time.h>
    #include <unistd.h>

    static time_t shift(void) {
      const char *text = getenv("SHIFT");
      return text ? atol(text) : 0;
    }

    int clock_gettime(clockid_t clock, struct timespec *time) {
      int result = syscall(SYS_clock_gettime, clock, time);
      if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += shift();
      return result;
    }

    int gettimeofday(struct timeval *restrict time, void *restrict zone) {
      struct timespec now;
      (void)zone;
      if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
      time->tv_sec = now.tv_sec;
      time->tv_usec = now.tv_nsec / 1000;
      return 0;
    }

    time_t time(time_t *place) {
      struct timespec now;
      if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
      if (place) *place = now.tv_sec;
      return now.tv_sec;
    }

    """
  private static let missing: Comment =
    "there is no C compiler: 'apt-get install gcc' (for this test only)"

  @Test(
    "Events between hosts whose clocks are an hour apart arrive once (requires a C compiler)",
    .enabled(if: InstalledProgram.compiler != nil, missing), arguments: [3_600, -3_600])
  func anHourApart(seconds: Int) async throws {
    try await CommandLineTool.launching { tool in
      let compiler = try #require(InstalledProgram.compiler)
      try tool.directory.write(Self.shiftedClock, to: "clock.c")
      _ = try await tool.end(
        of: tool.start(program: compiler, ["-shared", "-fPIC", "-o", "clock.so", "clock.c"]))
      let prefix = [
        "/usr/bin/env", "LD_PRELOAD=\(tool.directory.path)/clock.so", "SHIFT=\(seconds)",
      ]
      try await Self.checkClock(at: prefix, seconds, tool)
      let elsewhere = AgentTopology.ProcessLocation(prefix: prefix, address: "127.0.0.1")
      let locations = ["sink": elsewhere, "left": elsewhere]
      try await AgentTopology.with(
        AgentTests.hall, nodes: AgentTests.nodes, locations: locations, tool: tool
      ) { agents in
        let ward = agents.topology
        try await ward.startNumbers()
        try await ward.waitUntilNumbersArrive(200)
        let pids = try await ward.pids()
        let maps = FileSystem.text(of: "/proc/\(try #require(pids["sink"]))/maps") ?? ""
        #expect(maps.contains("/clock.so"))
        // The process is killed first and hangs later: the agent reports the kill, and the
        // orchestrator detects the hang.
        for (signal, incarnation) in [(SIGKILL, 2), (SIGSTOP, 3)] as [(Int32, UInt64)] {
          #expect(kill(try #require(try await ward.pids()["sink"]), signal) == 0)
          try await ward.await("the sink is another process") {
            $0[node: "sink"]?.isRunning == true && $0[node: "sink"]?.incarnation == incarnation
          }
        }
        try await ward.waitUntilAllMet(try await ward.endNumbers())
        #expect(try await ward.pids()["left"] == pids["left"])
      }
    }
  }

  /// Checks that a program with this prefix sees the shifted wall clock.
  private static func checkClock(at prefix: [String], _ seconds: Int, _ tool: CommandLineTool)
    async throws
  {
    let before = time(nil)
    let date = try await tool.end(
      of: tool.start(program: prefix[0], Array(prefix.dropFirst()) + ["/bin/date", "+%s"]))
    let reportedTime = try #require(Int(date.output.prefix { $0.isNumber }))
    #expect(before...time(nil) ~= reportedTime - seconds)
  }
}
