import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// The processes of a topology's nodes, for all engines. Reads and logs their output, and reports
/// when they end.
final class NodeProcesses {
  /// Receives events of the processes.
  protocol Observer: AnyObject {
    func handle(_ input: NodeLifecycle.Input, of node: String)
    /// Called as soon as a process has ended, so that the observer reads the last frames of the
    /// process before the end is handled.
    func drainFrames(of node: String)
    /// Called when a process has certainly ended, and its output and frames were read.
    func nodeDidEnd(_ node: String)
    func storeLastLines(_ lines: [String], of node: String)
    /// Called to read the frames that have arrived on the control socket.
    func readFrames()
    func showLine(node: String, _ stream: LogStream, _ text: String)
  }

  let directories: RuntimeDirectories
  let loop: PollLoop
  let logs: NodeLogs
  let helpers: HelperSweep
  weak var observer: (any Observer)?
  private var processes: [String: NodeProcess] = [:]

  /// How long to wait, after the end of a process that is not a child, for the last frames of the
  /// process and for the system's report of its exit.
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

  /// Returns the name of the node to which a process belongs; `nil` if the process was removed.
  func name(of process: NodeProcess) -> String? { processes.first { $0.value === process }?.key }

  /// Returns the processes that one engine runs, with their nodes and handles.
  func processes<Handle: ProcessHandle>(
    with _: Handle.Type
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

  /// Adds the process that a record describes.
  /// - Parameter capture: The capture that logs the output of the process.
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

  /// Reads the pending output of one of a node's pipes. Stops watching the pipe at its end.
  private func read(
    _ process: NodeProcess, of node: String, _ stream: LogStream, _ descriptor: Int32
  ) {
    logs.noteClock()
    let drained = process.outputCapture.drain(descriptor, as: stream)
    process.handle.observe(drained.lines)
    showOutput(drained, of: node, stream)
    if !drained.isOpen, let registration = process.registrations.removeValue(forKey: stream) {
      loop.remove(registration)
    }
  }

  /// Shows lines that were read, and logs lines of embedded nodes.
  func showOutput(_ drained: OutputCapture.DrainResult, of node: String, _ stream: LogStream) {
    for line in drained.lines { observer?.showLine(node: node, stream, line) }
    logs.reportNotice(drained.notice, of: node)
    for (embedded, lines) in drained.embeddedLines {
      logs.reportNotice(logs.writer(of: embedded).write(lines, from: stream), of: embedded)
      for line in lines { observer?.showLine(node: embedded, stream, line) }
    }
  }

  /// Reads all pending output of a process.
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

  // MARK: Ends of processes

  /// Handles the end of a process and of the nodes that were embedded in it.
  /// - Parameter startFailure: The reason why the program did not run; `nil` if the program ran.
  func finish(
    _ process: NodeProcess, of node: String, as exit: ProcessExit, startFailure: SpawnError? = nil
  ) {
    remove(process, of: node)
    if let startFailure {
      let isDiskFull = SystemError.isDiskFull(startFailure.code)
      observer?.handle(
        .spawnFailed(reason: "\(startFailure)", isDiskFull: isDiskFull), of: node)
    } else {
      reportExit(exit, of: process, node)
    }
    finishEmbedded(in: process, node, exit)
  }

  /// Gives up a process on another host, because that host does not answer.
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
    observer?.nodeDidEnd(node)
  }

  /// Reports how a process has ended. If the process exited by itself and wrote an error line, this
  /// line is the reason. The goodbye frame contains the same reason, but the frame may not have
  /// arrived yet.
  func reportExit(_ exit: ProcessExit, of process: NodeProcess, _ node: String) {
    if !exit.isSuccess {
      let lines = process.outputCapture.recentLines(
        ofEmbeddedNode: process.carrier == nil ? nil : node)
      observer?.storeLastLines(lines, of: node)
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
    for node in carrier.embeddedNodes.sorted() {
      guard let process = processes[node], process.carrier === carrier else { continue }
      remove(process, of: node)
      let lines = process.outputCapture.recentLines(ofEmbeddedNode: node)
      observer?.storeLastLines(lines, of: node)
      observer?.handle(
        .failureReported(reason: "carrier node '\(name)' ended: \(exit)"), of: node)
      observer?.handle(.exited(exit), of: node)
    }
  }
}
