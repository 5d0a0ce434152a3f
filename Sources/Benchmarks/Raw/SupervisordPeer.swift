import Glibc
import PipeRuntime
import PipeSupervision

/// `supervisord` with processes that do nothing: what starting a topology is compared with.
enum SupervisordPeer {
  /// Starts it, and ends it.
  /// - Returns: The time until all processes were there; `nil` where it is not installed. Unit: seconds.
  static func start(_ count: Int, in directory: TemporaryDirectory) throws -> Double? {
    guard let program = Programs.find("supervisord") else { return nil }
    let folder = directory.uniquePath("supervisord")
    let file = try directory.write(
      """
      [supervisord]
      nodaemon=true
      logfile=\(folder).log
      pidfile=\(folder).pid

      [program:sleep]
      command=/bin/sleep 600
      process_name=%(process_num)d
      numprocs=\(count)
      startsecs=0
      autorestart=false
      """, to: "supervisord.conf")
    let output = open(folder + ".out", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    guard output >= 0 else { throw SystemError("open", on: folder + ".out", code: errno) }
    defer { close(output) }
    let start = Clock.nanoseconds
    var process = try ChildProcess.spawn(
      ChildCommand(
        path: program, arguments: ["-c", file], environment: ProcessEnvironment.current,
        output: .descriptor(output)))
    defer {
      process.signal(.terminate)
      process.wait()
    }
    let children = "/proc/\(process.pid)/task/\(process.pid)/children"
    while HostMachine.text(of: children).split(separator: " ").count < count {
      guard process.reap() == nil, Clock.nanoseconds - start < 60_000_000_000 else {
        throw HarnessError("supervisord: \(HostMachine.text(of: folder + ".out"))")
      }
      usleep(1_000)
    }
    return Double(Clock.nanoseconds - start) / 1e9
  }
}
