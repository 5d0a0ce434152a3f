import Glibc
import PipeRuntime

/// The kernel's statistics about the threads of some processes.
struct ThreadTimes {
  /// The times of a thread since its start. Unit: nanoseconds.
  private struct Times {
    var cpuTime: UInt64
    var queueTime: UInt64
    /// The number of times that the thread got a processor.
    var scheduleCount: UInt64
  }

  private var threads: [Int32: Times]?

  /// Returns the resources that these processes have used since the previous sample.
  mutating func sample(of processes: some Sequence<Int32>, elapsed: Duration) -> StallClock.Sample {
    var sample = StallClock.Sample(elapsed: elapsed)
    var now: [Int32: Times] = [:]
    let own = Self.ownThread
    for process in processes {
      let tasks = "/proc/\(process)/task"
      for thread in FileSystem.entries(of: tasks).compactMap({ Int32($0) }) {
        guard let times = Self.times(of: "\(tasks)/\(thread)") else { continue }
        now[thread] = times
        let before = threads?[thread]
        let cpuTime = times.cpuTime &- (before?.cpuTime ?? 0)
        let queueTime = times.queueTime &- (before?.queueTime ?? 0)
        if threads != nil {
          sample.cpuTime += .nanoseconds(Int64(clamping: cpuTime))
          sample.queueTime += .nanoseconds(Int64(clamping: queueTime))
        }
        // The sampling thread itself is always running.
        guard thread != own else { continue }
        switch Self.state("\(tasks)/\(thread)") {
        case "D": sample.isRunnable = true
        // Sampling wakes other threads of this process. A thread that has run since the last sample
        // is already counted.
        case "R" where process != getpid() || before?.scheduleCount == times.scheduleCount:
          sample.isRunnable = true
        default: break
        }
      }
    }
    // The first sample counts as a change.
    sample.hasChanged = threads.map { $0.keys != now.keys } ?? true
    threads = now
    return sample
  }

  /// The id of the calling thread: `/proc/thread-self` is a link to `PID/task/THREAD`.
  private static var ownThread: Int32? {
    var target = [UInt8](repeating: 0, count: 64)
    let count = target.withUnsafeMutableBytes { bytes in
      readlink("/proc/thread-self", bytes.bindMemory(to: CChar.self).baseAddress!, bytes.count)
    }
    guard count > 0 else { return nil }
    let path = String(decoding: target[..<count], as: UTF8.self)
    return path.split(separator: "/").last.flatMap { Int32($0) }
  }

  /// Parses the times in a line `COMPUTED QUEUED SLICES`.
  private static func times(of task: String) -> Times? {
    guard let line = FileSystem.text(of: task + "/schedstat") else { return nil }
    let words = line.split { $0 == " " || $0 == "\n" }
    guard words.count >= 3, let cpuTime = UInt64(words[0]), let queueTime = UInt64(words[1]),
      let scheduleCount = UInt64(words[2])
    else { return nil }
    return Times(cpuTime: cpuTime, queueTime: queueTime, scheduleCount: scheduleCount)
  }

  /// Returns the state of a thread: `R` runs or waits in a queue for a processor, `D` waits for a
  /// disk.
  private static func state(_ task: String) -> Character? {
    // The state follows the name, which is in parentheses and may contain parentheses itself.
    guard let line = FileSystem.text(of: task + "/stat"), let end = line.lastIndex(of: ")") else {
      return nil
    }
    return line[end...].dropFirst(2).first
  }
}

/// Describes the load of the machine, to help explain an abandoned wait.
enum MachineReport {
  private static let interval: useconds_t = 200_000
  private static let processLimit = 5

  /// The current load. Measures all processes over a short interval.
  static var now: String {
    let before = ticks()
    usleep(interval)
    let used = ticks().compactMap { pid, after in
      before[pid].map { (name: after.name, pid: pid, ticks: after.ticks &- $0.ticks) }
    }
    let busiest = used.filter { $0.ticks > 0 }.sorted { $0.ticks > $1.ticks }.prefix(processLimit)
    let load = FileSystem.text(of: "/proc/loadavg")?.split(separator: " ").first ?? "?"
    let processors = sysconf(Int32(_SC_NPROCESSORS_ONLN))
    let share = Double(sysconf(Int32(_SC_CLK_TCK))) * Double(interval) / 1_000_000
    let names = busiest.map { process in
      "\(process.name) (\(process.pid)) \(Int(100 * Double(process.ticks) / share)) %"
    }
    return "the machine: \(processors) processors, load \(load), busiest: "
      + (names.isEmpty ? "nobody" : names.joined(separator: ", "))
  }

  /// Returns the processor time of each process. Unit: clock ticks.
  private static func ticks() -> [Int32: (name: String, ticks: UInt64)] {
    var all: [Int32: (name: String, ticks: UInt64)] = [:]
    for pid in FileSystem.entries(of: "/proc").compactMap({ Int32($0) }) {
      guard let line = FileSystem.text(of: "/proc/\(pid)/stat"),
        let open = line.firstIndex(of: "("), let close = line.lastIndex(of: ")")
      else { continue }
      let name = String(line[line.index(after: open)..<close])
      // Fields 14 and 15 of the line; the name is field 2.
      let fields = line[close...].split(separator: " ")
      guard fields.count > 13, let user = UInt64(fields[12]), let system = UInt64(fields[13]) else {
        continue
      }
      all[pid] = (name, user + system)
    }
    return all
  }
}
