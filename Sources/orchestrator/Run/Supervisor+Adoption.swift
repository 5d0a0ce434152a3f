import FoundationEssentials
import Glibc
import PipeRuntime
import PipeSupervision

extension Supervisor {
  /// How often a node that is not connected yet is greeted again: it connects again by itself.
  private static let greetingInterval: Duration = .milliseconds(20)
  /// How long an answer is waited for before the greeting counts as lost.
  private static let answerPatience: Duration = .seconds(1)

  /// Takes over the process of a node and asks it where it stands.
  func greet(_ name: String) {
    guard let survivor = adopted[name], let record = survivor.record, let log = logs[name] else {
      return
    }
    let process = NodeProcess(
      adopted: survivor.process, incarnation: record.incarnation,
      capture: OutputCapture(writer: log))
    processes[name] = process
    records[name]?.startedAt = record.startedAt
    records[name]?.launch = record.launch
    for stream in [LogStream.out, .err] {
      do {
        process.pipes.append((stream, try openPipe(of: name, stream)))
      } catch {
        reporter.warning("what node '\(name)' writes cannot be logged: \(error)")
      }
    }
    process.watch = loop.add(descriptor: survivor.process.descriptor, for: self) {
      [weak process] supervisor in
      if let process { supervisor.adoptedProcessEnded(process, of: name) }
    }
    sendGreeting(to: name)
  }

  private func sendGreeting(to name: String) {
    guard case .adopting = lifecycle[name]?.state, let process = processes[name] else { return }
    let hasPipe = { (stream: LogStream) in process.pipes.contains { $0.stream == stream } }
    let greeting = NodeGreeting(
      orchestrator: getpid(), isDetached: isDetached,
      output: hasPipe(.out) ? path(ofPipe: .out, name) : nil,
      error: hasPipe(.err) ? path(ofPipe: .err, name) : nil)
    guard let body = try? JSONEncoder().encode(greeting) else { return }
    let isSent = send(FrameHeader(.greet), body: Array(body), to: name) == .queued
    loop.schedule(after: isSent ? Self.answerPatience : Self.greetingInterval, for: self) {
      $0.sendGreeting(to: name)
    }
  }

  /// Takes the `hello` with which an adopted process answers.
  func answered(_ hello: NodeHello, by name: String) {
    guard let process = processes[name], case .adopting = lifecycle[name]?.state else { return }
    watchOutput(of: process, name)
    // Both ends are open: nobody else needs the names.
    for stream in [LogStream.out, .err] { unlink(path(ofPipe: stream, name)) }
    if let problem = hello.problem { return handle(.node(name, .hello(problem: problem))) }
    guard problem(with: hello, of: name) == nil else {
      let reason = "it hosts another machine than the one that was checked"
      return handle(.node(name, .answered(.differs(reason: reason))))
    }
    let input: NodeLifecycle.Input =
      switch hello.phase ?? .greeting {
      case .greeting: .hello(problem: nil)
      case .configured: .answered(.ready)
      case .running: .answered(.running)
      case .draining, .ended: .answered(.ending)
      }
    handle(.node(name, input))
  }

  private func path(ofPipe stream: LogStream, _ name: String) -> String {
    directories.runtime + "/" + name + "." + stream.rawValue
  }

  /// Makes a FIFO for what an adopted process writes, and opens our end.
  private func openPipe(of name: String, _ stream: LogStream) throws -> Int32 {
    let path = path(ofPipe: stream, name)
    unlink(path)
    guard mkfifo(path, 0o600) == 0 else { throw SystemError("mkfifo", on: path, code: errno) }
    let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    return descriptor
  }
}
