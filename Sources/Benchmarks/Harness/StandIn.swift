import Glibc
import PipeRuntime
import PipeSupervision

/// Takes the orchestrator's part towards one node, so that its start is timed by itself.
final class StandIn {
  private let context = Context()
  private let control: Socket
  private let directory: TemporaryDirectory
  private let endpoint: String

  init(in directory: TemporaryDirectory) throws {
    self.directory = directory
    endpoint = "ipc://" + directory.uniquePath("control")
    control = try Socket(.router, in: context)
    try control.bind(endpoint)
  }

  /// A node that runs.
  struct Node {
    var process: ChildProcess
    /// From its start until it was ready. Unit: seconds.
    let readyAfter: Double
    /// What it had used of the processors by then, its exec included.
    let useUntilReady: ProcessorUse
  }

  /// Starts a node without pipes; returns when it has said that it is ready, and runs.
  func start(machine: String, durability: Durability) throws -> Node {
    let name = "node"
    let arguments = NodeArguments(
      topology: "start", node: name, content: .machine(machine, parameters: .object([:])),
      control: endpoint, inbox: "ipc://" + directory.uniquePath("in"),
      feed: "ipc://" + directory.uniquePath("feed"), incarnation: 1,
      journal: durability == .volatile
        ? nil
        : NodeArguments.Journal(
          path: directory.uniquePath("journal"), durability: durability))
    let start = Clock.nanoseconds
    var process = try ChildProcess.spawn(
      ChildCommand(
        path: Programs.nodes, arguments: arguments.arguments,
        environment: ProcessEnvironment.current, output: .inherited))
    do {
      try expect(.hello)
      let peer = Array(WireName.node(name).utf8)
      control.send(
        FrameHeader(.configure, number: 1),
        body: try JSONRecord.encode(NodeConfiguration()),
        to: peer)
      try expect(.ready)
      let readyAfter = Double(Clock.nanoseconds - start) / 1e9
      let use = ProcessorUse(of: process.pid)
      control.send(FrameHeader(.start, number: 1), to: peer)
      control.send(FrameHeader(.ping, sequence: 1), to: peer)
      try expect(.status)
      return Node(process: process, readyAfter: readyAfter, useUntilReady: use)
    } catch {
      process.signal(.kill)
      process.wait()
      throw error
    }
  }

  private func expect(_ kind: FrameKind) throws {
    var seen: FrameKind?
    let loop = PollLoop()
    let registration = loop.add(control) { [control] in
      if control.receive({ _, bytes in seen = try? FrameHeader(bytes).kind }) { loop.stop() }
    }
    let timer = loop.schedule(after: .seconds(10)) { loop.stop() }
    loop.run()
    loop.cancel(timer)
    loop.remove(registration)
    guard seen == kind else { throw HarnessError("a node did not say '\(kind)' within 10 s") }
  }
}
