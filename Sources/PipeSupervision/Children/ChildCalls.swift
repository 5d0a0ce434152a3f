import Glibc
import PipeSystem
import PipeTransport

/// Short programs that are called while the loop goes on, with a little that they answer.
final class ChildCalls {
  private final class Call {
    var child: ChildProcess
    var answer: [UInt8] = []
    let done: (String) -> Void

    init(_ child: ChildProcess, _ done: @escaping (String) -> Void) {
      self.child = child
      self.done = done
    }
  }

  let loop: PollLoop
  private var calls: [Int32: Call] = [:]
  /// The longest that one has before it is killed.
  private static let patience: Duration = .seconds(20)

  init(_ loop: PollLoop) { self.loop = loop }

  /// Calls a program.
  /// - Parameter done: Called at its end with what it wrote on stdout; with nothing where it could not be started.
  func start(_ command: ChildCommand, done: @escaping (String) -> Void) {
    guard let child = try? ChildProcess.launch(command) else { return done("") }
    let call = Call(child, done)
    calls[child.pid] = call
    loop.schedule(after: Self.patience, for: self) {
      // Its number may be that of a later one by then.
      if $0.calls[child.pid] === call { call.child.signal(.kill, group: true) }
    }
  }

  /// Takes the ends of those that have ended.
  func reap() {
    for (pid, call) in calls {
      guard call.child.reap() != nil else { continue }
      calls[pid] = nil
      read(call)
      call.child.closePipes()
      call.done(String(decoding: call.answer, as: UTF8.self))
    }
  }

  /// Reads what it wrote, as far as the pipe holds that: its answer is short.
  private func read(_ call: Call) {
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = Glibc.read(call.child.output, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return }
      call.answer += buffer[..<count]
    }
  }
}
