import Glibc
import PipeSupport

/// The executable of the current process.
package enum OwnProcess {
  /// The path of the running executable; `nil` if it cannot be read.
  package static var executablePath: String? {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4097) { buffer in
      let count = readlink("/proc/self/exe", buffer.baseAddress!, 4096)
      guard count > 0 else { return nil }
      buffer[count] = 0
      return String(cString: buffer.baseAddress!)
    }
  }
}

/// The processor time and memory that a process on this machine uses.
package struct ProcessUsage: Hashable, Sendable {
  /// The processor time of all threads since the process started.
  package var cpu: Duration
  /// The resident memory. Unit: bytes.
  package var memoryByteCount: Int

  package init(cpu: Duration, memoryByteCount: Int) {
    self.cpu = cpu
    self.memoryByteCount = memoryByteCount
  }

  /// Reads the usage of a process. Returns `nil` if there is no such process.
  package init?(pid: Int32) {
    guard let text = FileSystem.text(of: "/proc/\(pid)/stat") else { return nil }
    self.init(
      stat: text, ticksPerSecond: sysconf(Int32(_SC_CLK_TCK)),
      pageByteCount: sysconf(Int32(_SC_PAGESIZE)))
  }

  /// Parses the text of `/proc/PID/stat`; see proc(5).
  package init?(stat text: String, ticksPerSecond: Int, pageByteCount: Int) {
    // The program's name can contain spaces and parentheses. The fields after it contain neither.
    guard let end = text.lastIndex(of: ")") else { return nil }
    let fields = text[text.index(after: end)...].split { $0 == " " || $0 == "\n" }
    // The first element is `state`, the third field in proc(5).
    func field(_ number: Int) -> Int? { number - 3 < fields.count ? Int(fields[number - 3]) : nil }
    guard let user = field(14), let system = field(15), let pages = field(24) else { return nil }
    cpu = .milliseconds((user + system) * 1_000 / ticksPerSecond)
    memoryByteCount = pages * pageByteCount
  }

  /// The memory as text, such as `20.1 MB`.
  package var memoryText: String {
    let tenths = (memoryByteCount + 50_000) / 100_000
    return "\(tenths / 10).\(tenths % 10) MB"
  }
}

/// An executor that runs a task and its child tasks on the thread that waits for the task. So a
/// blocking call in the task does not block the threads of the default executor. The process has no
/// additional thread until the task starts one itself.
package final class MainThread: TaskExecutor {
  private let jobs = Locked<[UnownedJob]>([])
  /// Signalled once for each job, and once when the operation has returned.
  private let jobAvailable = Semaphore()

  /// Runs an operation on this thread and returns its result.
  package static func run<Value: Sendable>(
    _ operation: sending @escaping () async -> Value
  ) -> Value {
    let thread = MainThread()
    let outcome = Locked<Value?>(nil)
    Task(executorPreference: thread) {
      let value = await operation()
      outcome.withLock { $0 = value }
      thread.jobAvailable.signal()
    }
    while true {
      thread.jobAvailable.wait()
      let job = thread.jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }
      job?.runSynchronously(on: thread.asUnownedTaskExecutor())
      if let value = outcome.withLock({ $0 }) { return value }
    }
  }

  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    jobs.withLock { $0.append(job) }
    jobAvailable.signal()
  }
}

/// The environment variables of this process, and of other processes on this machine.
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

  /// Returns the value of a variable in the environment of a process; `nil` if the variable is not
  /// set, or the environment cannot be read because the process is ending or belongs to another
  /// user.
  package static func value(of variable: String, ofProcess pid: Int32) -> String? {
    guard let bytes = FileSystem.contents(of: "/proc/\(pid)/environ", limit: 4 << 20) else {
      return nil
    }
    let prefix = Array("\(variable)=".utf8)
    for entry in bytes.split(separator: 0) where entry.starts(with: prefix) {
      return String(decoding: entry.dropFirst(prefix.count), as: UTF8.self)
    }
    return nil
  }

  /// Returns the ids of all other processes of this user whose environment has one of the given
  /// entries.
  /// - Parameter entries: Entries such as `NAME=value`.
  package static func processes(withAnyOf entries: Set<String>) -> [Int32] {
    let entries = entries.map { Array($0.utf8)[...] }
    return FileSystem.entryNames(of: "/proc").compactMap { name in
      guard let pid = Int32(name), pid != getpid(),
        let environment = FileSystem.contents(of: "/proc/\(name)/environ"),
        environment.split(separator: 0).contains(where: entries.contains)
      else { return nil }
      return pid
    }
  }
}

extension BootClock {
  /// The identifier of the current boot of the system.
  package static let bootID: String = {
    let text = FileSystem.text(of: "/proc/sys/kernel/random/boot_id") ?? ""
    return String(text.prefix { !$0.isNewline })
  }()
}
