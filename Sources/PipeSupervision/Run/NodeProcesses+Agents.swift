import Glibc
import PipeClient
import PipeWire

/// The processes that agents run.
extension NodeProcesses {
  /// Takes a process as one that an agent is told to start, or of which it is to be heard that it runs.
  func begin(_ run: AgentRun, as record: ProcessRecord) throws {
    // Nobody locks it: its process is elsewhere.
    close(try record.write(in: directories))
    processes[record.node] = NodeProcess(
      by: run, incarnation: record.incarnation,
      capture: OutputCapture(writer: logs.writer(of: record.node)))
  }

  /// An agent hands on what its process has written.
  func take(_ output: AgentOutput, of node: String) {
    guard let process = processes[node], process.agent != nil,
      process.incarnation == output.incarnation
    else { return }
    take(
      process.capture.take(output.lines, from: output.isError ? .err : .out), of: node,
      output.isError ? .err : .out)
  }

  /// An agent has told how its process has ended.
  func endedAtAgent(_ node: String, _ exit: ProcessExit) {
    guard let process = processes[node], process.agent != nil else { return }
    bury(process, as: exit, of: node)
  }

  /// An agent has told that it could not start a process.
  func didNotStart(_ node: String, because reason: String) {
    guard let process = processes[node], process.agent != nil else { return }
    remove(process, of: node)
    observer?.handle(.spawnFailed(reason: reason), of: node)
  }
}
