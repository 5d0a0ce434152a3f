import Glibc
import PipeRuntime

/// The process of a node, and what it writes.
final class NodeProcess {
  var child: ChildProcess
  let incarnation: UInt64
  var output = LogLineSplitter()
  var error = LogLineSplitter()
  var registrations: [PollLoop.Registration] = []
  var openPipes = 2

  init(child: ChildProcess, incarnation: UInt64) {
    self.child = child
    self.incarnation = incarnation
  }
}

extension Supervisor {
  func spawn(_ name: String, incarnation: UInt64) -> NodeLifecycle.Input {
    guard let node = plan.nodes.first(where: { $0.information.name == name }) else {
      return .spawnFailed(reason: "there is no such node")
    }
    let arguments = NodeArguments(
      topology: plan.topology, node: name, content: node.content, control: plan.control,
      inbox: node.information.inbox, feed: node.information.feed, incarnation: incarnation)
    do {
      let child = try ChildProcess.spawn(
        ChildCommand(
          path: node.information.program, arguments: arguments.arguments,
          environment: node.environment))
      let process = NodeProcess(child: child, incarnation: incarnation)
      processes[name] = process
      records[name]?.startedAt = Int64(Timestamp.now.nanosecondsSince1970)
      records[name]?.status = nil
      watch(process, of: name, .output, descriptor: child.output)
      watch(process, of: name, .error, descriptor: child.error)
      return .spawned(pid: child.pid)
    } catch {
      return .spawnFailed(reason: "\(error)")
    }
  }

  private func watch(
    _ process: NodeProcess, of name: String, _ stream: LogStream, descriptor: Int32
  ) {
    let registration = loop.add(descriptor: descriptor) { [unowned self, unowned process] in
      if !read(process, of: name, stream, descriptor) {
        loop.remove(process.registrations[stream == .output ? 0 : 1])
      }
    }
    process.registrations.append(registration)
  }

  /// Reads what is there. Returns `false` at the end of the pipe.
  @discardableResult
  private func read(
    _ process: NodeProcess, of name: String, _ stream: LogStream, _ descriptor: Int32
  ) -> Bool {
    var buffer = [UInt8](repeating: 0, count: 16_384)
    let count = Glibc.read(descriptor, &buffer, buffer.count)
    guard count > 0 else { return count < 0 && (errno == EAGAIN || errno == EINTR) }
    let lines =
      stream == .output
      ? process.output.append(buffer[..<count]) : process.error.append(buffer[..<count])
    for line in lines { keep(LogEntry(node: name, time: .now, stream: stream, text: line)) }
    return true
  }

  /// Takes the exit status of each child that has ended, after the last of what it wrote.
  func reapChildren() {
    for (name, process) in processes {
      guard let exit = process.child.reap() else { continue }
      finishReading(process, of: name)
      processes.removeValue(forKey: name)
      handle(.node(name, .exited(exit)))
    }
  }

  private func finishReading(_ process: NodeProcess, of name: String) {
    for registration in process.registrations { loop.remove(registration) }
    for (stream, descriptor) in [
      (LogStream.output, process.child.output), (.error, process.child.error),
    ] {
      // What a child of the node's own still writes is not waited for.
      for _ in 0..<64 where !read(process, of: name, stream, descriptor) { break }
    }
    for (stream, rest) in [
      (LogStream.output, process.output.finish()), (.error, process.error.finish()),
    ] {
      if let rest { keep(LogEntry(node: name, time: .now, stream: stream, text: rest)) }
    }
    process.child.closePipes()
  }

  /// Writes a line to the node's log and tells it.
  func keep(_ entry: LogEntry) {
    if let notice = logs[entry.node]?.write(entry.text, stream: entry.stream, at: entry.time) {
      reporter.warning("the log of node '\(entry.node)': \(notice)")
    }
    if !entry.text.hasPrefix("piperuntime: ") || entry.text.hasPrefix("piperuntime: warning")
      || entry.text.hasPrefix("piperuntime: error")
    {
      reporter.line(node: entry.node, entry.stream, entry.text)
    }
  }
}
