import Glibc
import PipeSupport

/// What a supervisor arranges for its own process.
package enum OwnProcess {
  /// Gives this process the name of its program, as tools show it: one that is executed by a descriptor is named
  /// after that.
  package static func takeProgramName() {
    let name = CommandLine.arguments[0].split(separator: "/").last.map(String.init) ?? ""
    let file = open("/proc/self/comm", O_WRONLY | O_CLOEXEC)
    guard file >= 0 else { return }
    defer { close(file) }
    try? FileSystem.write(Array(name.utf8), to: file, path: "/proc/self/comm")
  }

  /// The path of the running executable, to start it again.
  package static var executablePath: String? {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4097) { buffer in
      let count = readlink("/proc/self/exe", buffer.baseAddress!, 4096)
      guard count > 0 else { return nil }
      buffer[count] = 0
      return String(cString: buffer.baseAddress!)
    }
  }
}

/// What a process of this machine has used.
package struct ProcessUsage: Hashable, Sendable {
  /// The time that all its threads have had a processor, since it was started.
  package var cpu: Duration
  /// What it holds in memory now. Unit: bytes.
  package var memoryByteCount: Int

  package init(cpu: Duration, memoryByteCount: Int) {
    self.cpu = cpu
    self.memoryByteCount = memoryByteCount
  }

  /// `nil` where there is no such process.
  package init?(pid: Int32) {
    guard let text = FileSystem.text(of: "/proc/\(pid)/stat") else { return nil }
    self.init(
      stat: text, ticksPerSecond: sysconf(Int32(_SC_CLK_TCK)),
      pageByteCount: sysconf(Int32(_SC_PAGESIZE)))
  }

  /// Reads the text of `/proc/PID/stat`, see proc(5).
  package init?(stat text: String, ticksPerSecond: Int, pageByteCount: Int) {
    // The program's name may have spaces and parentheses in it; what follows has none.
    guard let end = text.lastIndex(of: ")") else { return nil }
    let fields = text[text.index(after: end)...].split { $0 == " " || $0 == "\n" }
    // `state`, the third field, is the first here.
    func field(_ number: Int) -> Int? { number - 3 < fields.count ? Int(fields[number - 3]) : nil }
    guard let user = field(14), let system = field(15), let pages = field(24) else { return nil }
    cpu = .milliseconds((user + system) * 1_000 / ticksPerSecond)
    memoryByteCount = pages * pageByteCount
  }

  /// `20.1 MB`
  package var memoryText: String {
    let tenths = (memoryByteCount + 50_000) / 100_000
    return "\(tenths / 10).\(tenths % 10) MB"
  }
}

/// Runs a task, and what it awaits, on the thread that waits for it: what blocks in it keeps no other task
/// from running, and no thread is started before the task starts one.
package final class MainThread: TaskExecutor {
  private let jobs = Locked<[UnownedJob]>([])
  /// Signalled for each job, and for the end.
  private let hasTurn = Semaphore()

  /// Runs an operation on this thread until it has returned.
  package static func run<Value: Sendable>(
    _ operation: sending @escaping () async -> Value
  ) -> Value {
    let thread = MainThread()
    let outcome = Locked<Value?>(nil)
    Task(executorPreference: thread) {
      let value = await operation()
      outcome.withLock { $0 = value }
      thread.hasTurn.signal()
    }
    while true {
      thread.hasTurn.wait()
      let job = thread.jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }
      job?.runSynchronously(on: thread.asUnownedTaskExecutor())
      if let value = outcome.withLock({ $0 }) { return value }
    }
  }

  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    jobs.withLock { $0.append(job) }
    hasTurn.signal()
  }
}

/// The environment variables of this process.
package enum ProcessEnvironment {
  package static var current: [String: String] {
    var variables: [String: String] = [:]
    var pointer = environ
    while let entry = pointer.pointee {
      let text = String(cString: entry)
      if let equals = text.firstIndex(of: "=") {
        variables[String(text[..<equals])] = String(text[text.index(after: equals)...])
      }
      pointer += 1
    }
    return variables
  }
}

extension BootClock {
  /// Names the present run of the system.
  package static let boot: String = {
    let text = FileSystem.text(of: "/proc/sys/kernel/random/boot_id") ?? ""
    return String(text.prefix { !$0.isNewline })
  }()
}
