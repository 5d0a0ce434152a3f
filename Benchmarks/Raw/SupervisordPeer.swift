import Glibc
import PipeRuntime
import PipeSupervision

/// `supervisord` with idle processes, as a baseline for starting a topology.
enum SupervisordPeer {
  static let missing =
    "supervisord is missing: 'apt-get install supervisor' (a tool for its figure only)"

  /// Starts supervisord with a number of processes, and ends it.
  /// - Returns: The time from the start until all processes have called exec. Unit: seconds. `nil`
  ///   if supervisord is not installed.
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
    while execCount(by: process.pid) < count {
      guard process.reap() == nil, Clock.nanoseconds - start < 60_000_000_000 else {
        throw HarnessError("supervisord: \(HostMachine.text(of: folder + ".out"))")
      }
      usleep(1_000)
    }
    return Double(Clock.nanoseconds - start) / 1e9
  }

  /// Returns the number of children of a process that have called exec.
  private static func execCount(by pid: Int32) -> Int {
    let own = HostMachine.text(of: "/proc/\(pid)/comm")
    return HostMachine.text(of: "/proc/\(pid)/task/\(pid)/children")
      .split(separator: " ")
      .count { HostMachine.text(of: "/proc/\($0)/comm") != own }
  }
}
