import Glibc
import PipeRuntime
import PipeSupervision

/// Debian's supervisord, which starts processes and keeps them running, too.
enum SupervisorDaemon {
  static let path = "/usr/bin/supervisord"

  static var isInstalled: Bool { access(path, X_OK) == 0 }

  /// How long starting may take.
  private static let deadline: Duration = .seconds(60)

  /// Has it start so many processes that do nothing.
  /// - Returns: The time from its own start until all of them have executed. Unit: seconds.
  static func start(_ count: Int) throws -> Double {
    let directory = try TemporaryDirectory()
    let file = try directory.write(
      """
      [supervisord]
      nodaemon = true
      logfile = /dev/null
      logfile_maxbytes = 0
      pidfile = \(directory.path)/pid
      childlogdir = \(directory.path)

      [program:bare]
      command = \(ChildCommand.sleep.path) \(ChildCommand.sleep.arguments.joined(separator: " "))
      numprocs = \(count)
      process_name = %(process_num)03d
      startsecs = 0
      stdout_logfile = NONE
      stderr_logfile = NONE

      """, to: "supervisord.conf")
    let output = open("/dev/null", O_WRONLY | O_CLOEXEC)
    defer { close(output) }
    let start = Clock.nanoseconds
    var daemon = try ChildProcess.spawn(
      ChildCommand(
        path: path, arguments: ["-c", file], environment: ProcessEnvironment.current,
        output: .descriptor(output)))
    // In order: else it leaves what it has started behind.
    defer {
      daemon.signal(.terminate)
      daemon.wait()
    }
    let begin = ContinuousClock.now
    while executed(by: daemon.pid) < count {
      guard daemon.reap() == nil, begin.duration(to: .now) < deadline else {
        throw HarnessError("'\(path)' did not start \(count) processes")
      }
      usleep(1_000)
    }
    return Double(Clock.nanoseconds - start) / 1e9
  }

  /// How many children of a process have executed another program.
  private static func executed(by pid: Int32) -> Int {
    let own = HostMachine.text(of: "/proc/\(pid)/comm")
    return HostMachine.text(of: "/proc/\(pid)/task/\(pid)/children")
      .split(separator: " ")
      .count { HostMachine.text(of: "/proc/\($0)/comm") != own }
  }
}
