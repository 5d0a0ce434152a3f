import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// The processes of a topology's nodes, for all engines: reads their output, logs it, and reports their
/// ends.
final class NodeProcesses {
  /// Receives events of the processes.
  protocol Observer: AnyObject {
    func handle(_ input: NodeLifecycle.Input, of node: String)
    /// Called when a process has ended, to read the frames that it sent before its end is handled.
    func drainFrames(of node: String)
    /// Called when the process has certainly ended and its output and frames were read.
    func hasEnded(_ node: String)
    func takeLastLines(_ lines: [String], of node: String)
    /// Called to read the frames that have arrived on the control socket.
    func readFrames()
    func line(node: String, _ stream: LogStream, _ text: String)
  }

  let directories: RuntimeDirectories
  let loop: PollLoop
  let logs: NodeLogs
  let helpers: HelperSweep
  weak var observer: (any Observer)?
  private var processes: [String: NodeProcess] = [:]

  /// The time for the last frames of a process that is not a child, and for the system's report of its end.
  static let lastFramesDelay: Duration = .milliseconds(100)

  init(in directories: RuntimeDirectories, loop: PollLoop, logs: NodeLogs) {
    self.directories = directories
    self.loop = loop
    self.logs = logs
    helpers = HelperSweep(loop)
  }

  /// The nodes that have a process.
  var nodes: some Sequence<String> { processes.keys }

  subscript(node: String) -> NodeProcess? { processes[node] }

  /// Returns the node whose own process this is.
  func name(of process: NodeProcess) -> String? { processes.first { $0.value === process }?.key }

  /// Returns the processes with the handles of one engine.
  func all<Handle: ProcessHandle>(
    _: Handle.Type
  ) -> [(node: String, process: NodeProcess, handle: Handle)] {
    processes.compactMap { node, process in
      (process.handle as? Handle).map { (node, process, $0) }
    }
  }

  /// Adds the process that a record describes.
  @discardableResult
  func add(_ handle: any ProcessHandle, as record: ProcessRecord) -> NodeProcess {
    add(handle, as: record, capture: OutputCapture(writer: logs.writer(of: record.node)))
  }

  /// - Parameter capture: The capture that receives the output of the process.
  @discardableResult
  func add(
    _ handle: any ProcessHandle, as record: ProcessRecord, capture: OutputCapture
  ) -> NodeProcess {
    let process = NodeProcess(handle, incarnation: record.incarnation, capture: capture)
    processes[record.node] = process
    return process
  }

  // MARK: Output

  /// Starts to read and log the output of a process.
  func watchOutput(of node: String) {
    guard let process = processes[node] else { return }
    for (stream, descriptor) in process.pipes {
      process.registrations[stream] = loop.add(descriptor: descriptor, for: self) {
        $0.read(process, of: node, stream, descriptor)
      }
    }
  }

  /// Reads the pending output of one of a node's pipes; stops watching the pipe at its end.
  private func read(
    _ process: NodeProcess, of node: String, _ stream: LogStream, _ descriptor: Int32
  ) {
    logs.noteClock()
    let drained = process.capture.drain(descriptor, as: stream)
    process.handle.observe(drained.lines)
    take(drained, of: node, stream)
    if !drained.isOpen, let registration = process.registrations.removeValue(forKey: stream) {
      loop.remove(registration)
    }
  }

  /// Shows lines that were read, and logs the lines of embedded nodes.
  func take(_ drained: OutputCapture.DrainResult, of node: String, _ stream: LogStream) {
    for line in drained.lines { observer?.line(node: node, stream, line) }
    logs.reportNotice(drained.notice, of: node)
    for (embedded, lines) in drained.embeddedLines {
      logs.reportNotice(logs.writer(of: embedded).write(lines, from: stream), of: embedded)
      for line in lines { observer?.line(node: embedded, stream, line) }
    }
  }

  /// Reads the pending output of all pipes.
  func readRemainingOutput(of process: NodeProcess, _ node: String) {
    for (stream, descriptor) in process.pipes where process.registrations[stream] != nil {
      read(process, of: node, stream, descriptor)
    }
  }

  /// Stops reading the output of a process.
  func stopReading(_ process: NodeProcess) {
    for registration in process.registrations.values { loop.remove(registration) }
    process.registrations = [:]
  }

  // MARK: The end

  /// Handles the end of a process, and of the nodes that were embedded in it.
  /// - Parameter startFailure: Why the program did not run.
  func finish(
    _ process: NodeProcess, of node: String, as exit: ProcessExit, startFailure: SpawnError? = nil
  ) {
    remove(process, of: node)
    if let startFailure {
      let isDiskFull = SystemError.isDiskFull(startFailure.code)
      observer?.handle(
        .spawnFailed(reason: "\(startFailure)", isDiskFull: isDiskFull), of: node)
    } else {
      report(exit, of: process, node)
    }
    finishEmbedded(in: process, node, exit)
  }

  /// Gives up a process on another host that does not answer.
  func abandon(_ node: String) {
    guard let process = processes[node], process.isRemote else { return }
    finish(process, of: node, as: .unobserved(isCertain: false))
  }

  func remove(_ process: NodeProcess, of node: String) {
    observer?.drainFrames(of: node)
    readRemainingOutput(of: process, node)
    stopReading(process)
    process.handle.release(process)
    processes.removeValue(forKey: node)
    if process.carrier == nil, !process.isRemote {
      helpers.begin(
        HelperProcesses.marker(of: node, incarnation: process.incarnation, in: directories))
    }
    ProcessRecord.remove(node, in: directories)
    observer?.hasEnded(node)
  }

  /// Reports how a process has ended. If it ended by itself and wrote an error line, that line is the
  /// reason. Its goodbye frame has the same reason, but may still be in flight.
  func report(_ exit: ProcessExit, of process: NodeProcess, _ node: String) {
    if !exit.isSuccess {
      let lines = process.capture.recentLines(ofEmbeddedNode: process.carrier == nil ? nil : node)
      observer?.takeLastLines(lines, of: node)
      if case .exited = exit,
        let line = lines.last(where: { $0.hasPrefix(NodeLogPrefix.error) })
      {
        let reason = String(line.dropFirst(NodeLogPrefix.error.count))
        observer?.handle(.failureReported(reason: reason), of: node)
      } else if let reason = process.handle.failureReason {
        observer?.handle(.failureReported(reason: reason), of: node)
      }
    }
    observer?.handle(.exited(exit), of: node)
  }

  private func finishEmbedded(in carrier: NodeProcess, _ name: String, _ exit: ProcessExit) {
    for node in carrier.embedded.sorted() {
      guard let process = processes[node], process.carrier === carrier else { continue }
      remove(process, of: node)
      let lines = process.capture.recentLines(ofEmbeddedNode: node)
      observer?.takeLastLines(lines, of: node)
      observer?.handle(
        .failureReported(reason: "carrier node '\(name)' ended: \(exit)"), of: node)
      observer?.handle(.exited(exit), of: node)
    }
  }
}
