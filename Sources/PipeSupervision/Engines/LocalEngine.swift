import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// Runs processes on the orchestrator's own host: children of the orchestrator, and adopted
/// processes.
final class LocalEngine: ProcessEngine {
  /// A process on this host.
  final class Handle: ProcessHandle {
    enum Origin {
      case child(ChildProcess)
      /// A child of a former orchestrator.
      case adopted(AdoptedProcess)
    }

    let engine: any ProcessEngine
    fileprivate(set) var origin: Origin
    /// The reason why the program of a child does not run; `nil` if the program runs, or if the
    /// result is not known yet.
    fileprivate var startFailure: SpawnError?
    /// The registration that watches the process: for a child, whether the program runs; for an
    /// adopted process, whether the process has ended.
    fileprivate var watch: PollLoop.Registration?
    private let loop: PollLoop

    fileprivate init(_ origin: Origin, _ engine: LocalEngine) {
      self.origin = origin
      self.engine = engine
      loop = engine.processes.loop
    }

    let isRemote = false

    var pid: Int32 {
      switch origin {
      case .child(let child): child.pid
      case .adopted(let process): process.pid
      }
    }

    func signal(_ signal: Signal, group: Bool) -> Bool {
      switch origin {
      case .child(let child): child.signal(signal, group: group)
      case .adopted(let process): process.signal(signal, group: group)
      }
    }

    fileprivate func unwatch() {
      if let watch { loop.remove(watch) }
      watch = nil
    }

    func release(_ process: NodeProcess) {
      unwatch()
      switch origin {
      case .child(let child): child.closePipes()
      case .adopted: for (_, descriptor) in process.pipes { close(descriptor) }
      }
    }
  }

  private unowned let supervisor: Supervisor
  let processes: NodeProcesses

  init(_ supervisor: Supervisor) {
    self.supervisor = supervisor
    processes = supervisor.processes
  }

  // MARK: Starting processes

  func launch(_ node: LaunchPlan.Node, updating record: inout ProcessRecord) throws -> Int32 {
    var command = supervisor.command(of: node, incarnation: record.incarnation)
    if let program = try supervisor.pinnedProgram(of: node) {
      command.executable = program.executable
      record.launch.build = program.build
      record.launch.version = program.version
      if let error = program.copyError {
        supervisor.publish(.programNotCopied(reason: error), of: node.name)
      }
    }
    let file = try record.write(in: processes.directories)
    defer { close(file) }
    command.recordDescriptor = file
    let child = try ChildProcess.launch(command)
    let handle = Handle(.child(child), self)
    let process = processes.add(handle, as: record)
    process.pipes = [(.out, child.outputDescriptor), (.err, child.errorDescriptor)]
    handle.watch = processes.loop.add(descriptor: child.reportDescriptor, for: self) {
      $0.readReport(of: handle)
    }
    processes.watchOutput(of: node.name)
    return child.pid
  }

  private func readReport(of handle: Handle) {
    guard case .child(var child) = handle.origin else { return }
    if let error = child.readReport() { handle.startFailure = error }
    handle.origin = .child(child)
    if child.reportDescriptor < 0 { handle.unwatch() }
  }

  // MARK: Adoption of processes

  func adopt(_ record: ProcessRecord, _ survivor: AdoptedProcess?) {
    guard let survivor else { return }
    let node = record.node
    let handle = Handle(.adopted(survivor), self)
    let process = processes.add(handle, as: record)
    for stream in [LogStream.out, .err] {
      do {
        process.pipes.append((stream, try openPipe(of: node, stream)))
      } catch {
        supervisor.reportUnloggedOutput(of: node, error)
      }
    }
    handle.watch = processes.loop.add(descriptor: survivor.descriptor, for: self) {
      $0.adoptedProcessEnded(process, handle, of: node)
    }
    supervisor.programs.adopt(record.launch, of: node)
  }

  /// Returns the path of the pipe to which an adopted process must write its output; `nil` if there
  /// is no such pipe.
  func pipe(of node: String, _ stream: LogStream) -> String? {
    guard let process = processes[node], process.handle is Handle,
      process.pipes.contains(where: { $0.stream == stream })
    else { return nil }
    return path(ofPipe: stream, node)
  }

  /// Starts to read the output of an adopted process, after the process has opened its pipes.
  func didAnswerGreeting(_ node: String) {
    processes.watchOutput(of: node)
    // The process has opened the pipes, so the paths are no longer needed.
    for stream in [LogStream.out, .err] { unlink(path(ofPipe: stream, node)) }
  }

  private func path(ofPipe stream: LogStream, _ node: String) -> String {
    processes.directories.runtime + "/" + node + "." + stream.rawValue
  }

  /// Creates a FIFO for the output of an adopted process, and opens its read end.
  private func openPipe(of node: String, _ stream: LogStream) throws -> Int32 {
    let path = path(ofPipe: stream, node)
    unlink(path)
    guard mkfifo(path, 0o600) == 0 else { throw SystemError("mkfifo", on: path, code: errno) }
    let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    return descriptor
  }

  // MARK: Ends of processes

  /// Reaps the children that have ended, and reads the rest of their output.
  func reap() {
    for (node, process, handle) in processes.processes(with: Handle.self) {
      guard case .child(var child) = handle.origin, let exit = child.reap() else { continue }
      handle.origin = .child(child)
      readReport(of: handle)
      processes.finish(process, of: node, as: exit, startFailure: handle.startFailure)
    }
  }

  private func adoptedProcessEnded(_ process: NodeProcess, _ handle: Handle, of node: String) {
    guard case .adopted(let adopted) = handle.origin else { return }
    handle.unwatch()
    // The processes that the adopted process has started must end as well, just as for a child.
    adopted.signal(.kill, group: true)
    processes.observer?.readFrames()
    if process.saidGoodbye || adopted.exit != nil { return finish(process, adopted, of: node) }
    processes.loop.schedule(after: NodeProcesses.lastFramesDelay, for: self) {
      $0.processes.observer?.readFrames()
      $0.finish(process, adopted, of: node)
    }
  }

  private func finish(_ process: NodeProcess, _ adopted: AdoptedProcess, of node: String) {
    processes.finish(
      process, of: node, as: adopted.exit ?? .unreported(saidGoodbye: process.saidGoodbye))
  }
}
