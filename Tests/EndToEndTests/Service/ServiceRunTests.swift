import Glibc
import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("A topology as a service", .timed)
struct ServiceRunTests {
  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      patient: { machine: Fragile, durability: process }
      nurse: { machine: Button }
    """

  /// A service of the ward with its service manager.
  private struct Service {
    let topology: DetachedTopology
    let socket: NotifySocket

    /// Calls back with a service that does not run yet.
    static func with(_ body: (Service) async throws -> Void) async throws {
      try await CommandLineTool.launching { tool in
        let socket = try NotifySocket(in: tool.directory)
        var tool = tool
        tool.environment = ["NOTIFY_SOCKET": socket.path, "WATCHDOG_USEC": "400000"]
        let topology = try DetachedTopology(tool: tool, name: "ward", yaml: ward)
        try await body(Service(topology: topology, socket: socket))
      }
    }

    /// Starts the service, as the service manager does, and returns when it is ready.
    func start(_ options: String...) async throws -> LaunchedProgram {
      socket.clear()
      let run = try topology.tool.start(["run", "--service"] + options + ["ward.yaml"])
      try await socket.await("READY=1")
      return run
    }
  }

  @Test("'run --service' is ready when its nodes run, and stops the nodes in order on SIGTERM")
  func notifies() async throws {
    try await Service.with { service in
      let run = try await service.start()
      #expect(service.socket.contains("STATUS=2 nodes running"))
      // Notifications before the nodes run postpone the time limit of the start.
      let first = try #require(service.socket.messages.first)
      #expect(first.contains("EXTEND_TIMEOUT_USEC=") && !first.contains("READY=1"))
      let pids = try await service.topology.pids()
      run.signal(.terminate)
      let result = try await service.topology.end(of: run)
      service.socket.read()
      #expect(service.socket.contains("STOPPING=1"))
      #expect(service.topology.alive(pids.values) == [])
      #expect(result.output.contains("patient: stopped\n"), "\(result)")
      #expect(result.output.hasSuffix("ward: stopped\n"), "\(result)")
      #expect(try service.topology.logs().contains("ward: 2 nodes running"))
    }
  }

  @Test("If the orchestrator of a service is killed, the next orchestrator adopts the nodes")
  func adopts() async throws {
    try await Service.with { service in
      let first = try await service.start()
      let pids = try await service.topology.pids()
      first.signal(.kill)
      _ = try await first.waitForExit(within: .seconds(20))
      #expect(service.topology.alive(pids.values) == Set(pids.values))
      let second = try await service.start()
      #expect(try await service.topology.pids() == pids)
      #expect(second.outputText.contains("patient: adopted (incarnation 1)"))
      second.signal(.terminate)
      try await service.topology.end(of: second)
      #expect(service.topology.alive(pids.values) == [])
    }
  }

  @Test("A suspended orchestrator of a service sends no watchdog notification until it continues")
  func watchdog() async throws {
    try await Service.with { service in
      let run = try await service.start()
      service.socket.clear()
      try await service.socket.await("WATCHDOG=1")
      run.signal(.stop)
      // The process is suspended when the system says so, and sends nothing afterwards.
      let isSuspended: Bool? = try await poll(within: .seconds(10)) {
        FileSystem.text(of: "/proc/\(run.pid)/stat")?.contains(") T ") == true ? true : nil
      }
      #expect(isSuspended == true)
      service.socket.clear()
      let silence: Bool? = try await poll(every: .milliseconds(20), within: .seconds(1)) {
        service.socket.read()
        return service.socket.messages.isEmpty ? nil : true
      }
      #expect(silence == nil, "\(service.socket.messages)")
      run.signal(.resume)
      try await service.socket.await("WATCHDOG=1")
      run.signal(.terminate)
      try await service.topology.end(of: run)
    }
  }

  @Test("The nodes of a service do not inherit the socket of the service manager")
  func environment() async throws {
    try await Service.with { service in
      let run = try await service.start()
      for pid in try await service.topology.pids().values {
        let environment = FileSystem.text(of: "/proc/\(pid)/environ") ?? ""
        #expect(environment.contains("PIPERUNTIME_PROCESS="))
        #expect(!environment.contains("NOTIFY_SOCKET=") && !environment.contains("WATCHDOG_USEC="))
      }
      run.signal(.terminate)
      try await service.topology.end(of: run)
    }
  }

  @Test("A service that is stopped on request exits 0, even if one of its nodes has failed")
  func failedNode() async throws {
    try await Service.with { service in
      try service.topology.write(
        Self.ward + """

            bad: { machine: Fragile, parameters: { diesAtStart: true }, restart: { policy: never } }
          """)
      let run = try await service.start()
      #expect(
        try await run.waitForOutput(containing: "bad: failed", within: .seconds(60)),
        "\(run.outputText)")
      run.signal(.terminate)
      try await service.topology.end(of: run)
    }
  }

  @Test("'--log-format json' writes each line as an object with time, level and node")
  func json() async throws {
    try await Service.with { service in
      let run = try await service.start("--logs", "--log-format", "json")
      try await service.topology.run("send", "patient", #"{"shout":{"lines":2}}"#)
      try await service.topology.run("kill", "patient")
      let isRestarted = try await run.waitForOutput(
        containing: #""incarnation":2,"level":"info","message":"running""#, within: .seconds(60))
      #expect(isRestarted, "\(run.outputText)")
      run.signal(.terminate)
      let result = try await service.topology.end(of: run)
      let lines = try result.output.split(separator: "\n").map { try JSONValue(parsing: $0.utf8) }
      for line in lines {
        #expect(line["time"]?.string.flatMap { Timestamp($0) } != nil, "\(line)")
        #expect(line["topology"] == "ward" && line["message"]?.string != nil, "\(line)")
        #expect(["info", "warning", "error"].contains(line["level"]?.string ?? ""), "\(line)")
      }
      #expect(
        lines.contains {
          $0["node"] == "patient" && $0["stream"] == "out" && $0["message"] == "line 1"
            && $0["incarnation"] == 1
        }, "\(result)")
      #expect(
        lines.contains {
          $0["node"] == "patient" && $0["level"] == "warning"
            && $0["message"]?.string?.contains("restart 1 of") == true
        }, "\(result)")
      #expect(result.error == "")
    }
  }

  @Test("Lines of 'run --log-format json' about states contain their versions")
  func versions() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.ward, to: "ward.yaml")
      let run = try tool.start(["run", "--log-format", "json", "ward.yaml"])
      #expect(try await run.waitForOutput(containing: "2 nodes running", within: .seconds(60)))
      try await tool.run("send", "nurse", "press", code: 0)
      let isShown = try await run.waitForOutput(containing: "\"version\":1", within: .seconds(60))
      #expect(isShown, "\(run.outputText)")
      run.signal(.terminate)
      try await tool.end(of: run)
    }
  }

  @Test("'--log-format' is refused for a run in the background")
  func background() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(Self.ward, to: "ward.yaml")
    let result = try await tool.run("up", "-d", "--log-format", "json", "ward.yaml", code: 2)
    #expect(result.error.contains("--log-format requires a run in the foreground"), "\(result)")
  }
}
