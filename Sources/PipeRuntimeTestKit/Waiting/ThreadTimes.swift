import Glibc
import PipeRuntime

/// The kernel's statistics about the threads of a set of processes.
struct ThreadTimes {
  /// The times of a thread since the thread started. Unit: nanoseconds.
  private struct Times {
    var cpuTime: UInt64
    var queueTime: UInt64
    /// The number of times that the thread was scheduled on a processor.
    var scheduleCount: UInt64
  }

  private var timesByThread: [Int32: Times]?

  /// Returns the resources that the threads of these processes have used since the previous sample.
  mutating func sample(of processes: some Sequence<Int32>, elapsed: Duration) -> StallClock.Sample {
    var sample = StallClock.Sample(elapsed: elapsed)
    var now: [Int32: Times] = [:]
    let own = Self.ownThread
    for process in processes {
      let tasks = "/proc/\(process)/task"
      for thread in FileSystem.entryNames(of: tasks).compactMap({ Int32($0) }) {
        guard let times = Self.times(of: "\(tasks)/\(thread)") else { continue }
        now[thread] = times
        let before = timesByThread?[thread]
        let cpuTime = times.cpuTime &- (before?.cpuTime ?? 0)
        let queueTime = times.queueTime &- (before?.queueTime ?? 0)
        if timesByThread != nil {
          sample.cpuTime += .nanoseconds(Int64(clamping: cpuTime))
          sample.queueTime += .nanoseconds(Int64(clamping: queueTime))
        }
        // The thread that takes the sample is always running, so it is ignored.
        guard thread != own else { continue }
        switch Self.threadState("\(tasks)/\(thread)") {
        case "D": sample.isRunnable = true
        // Taking samples wakes other threads of this process. So a runnable thread of this process
        // counts only if it was not scheduled since the last sample.
        case "R" where process != getpid() || before?.scheduleCount == times.scheduleCount:
          sample.isRunnable = true
        default: break
        }
      }
    }
    // The first sample counts as a change.
    sample.hasChanged = timesByThread.map { $0.keys != now.keys } ?? true
    timesByThread = now
    return sample
  }

  /// The id of the calling thread. The link `/proc/thread-self` has a target such as
  /// `PID/task/THREAD`.
  private static var ownThread: Int32? {
    var target = [UInt8](repeating: 0, count: 64)
    let count = target.withUnsafeMutableBytes { bytes in
      readlink("/proc/thread-self", bytes.bindMemory(to: CChar.self).baseAddress!, bytes.count)
    }
    guard count > 0 else { return nil }
    let path = String(decoding: target[..<count], as: UTF8.self)
    return path.split(separator: "/").last.flatMap { Int32($0) }
  }

  /// Reads the times of a thread from a line of the form `CPU-TIME QUEUE-TIME SCHEDULE-COUNT`.
  private static func times(of task: String) -> Times? {
    guard let line = FileSystem.text(of: task + "/schedstat") else { return nil }
    let words = line.split { $0 == " " || $0 == "\n" }
    guard words.count >= 3, let cpuTime = UInt64(words[0]), let queueTime = UInt64(words[1]),
      let scheduleCount = UInt64(words[2])
    else { return nil }
    return Times(cpuTime: cpuTime, queueTime: queueTime, scheduleCount: scheduleCount)
  }

  /// Returns the state of a thread: `R` if the thread is running or waiting for a processor, `D` if
  /// it is waiting for a disk.
  private static func threadState(_ task: String) -> Character? {
    // The state follows the thread's name, which is in parentheses and can itself contain
    // parentheses.
    guard let line = FileSystem.text(of: task + "/stat"), let end = line.lastIndex(of: ")") else {
      return nil
    }
    return line[end...].dropFirst(2).first
  }
}

/// Describes how busy the host is. The description helps to explain a stall.
enum MachineReport {
  private static let samplingInterval: useconds_t = 200_000
  private static let processLimit = 5

  /// A text about the current load, measured for all processes over a short interval.
  static var now: String {
    let before = processTicks()
    usleep(samplingInterval)
    let used = processTicks().compactMap { pid, after in
      before[pid].map { (name: after.name, pid: pid, ticks: after.ticks &- $0.ticks) }
    }
    let busiest = used.filter { $0.ticks > 0 }.sorted { $0.ticks > $1.ticks }.prefix(processLimit)
    let load = FileSystem.text(of: "/proc/loadavg")?.split(separator: " ").first ?? "?"
    let processors = sysconf(Int32(_SC_NPROCESSORS_ONLN))
    let share = Double(sysconf(Int32(_SC_CLK_TCK))) * Double(samplingInterval) / 1_000_000
    let names = busiest.map { process in
      "\(process.name) (\(process.pid)) \(Int(100 * Double(process.ticks) / share)) %"
    }
    return "the machine: \(processors) processors, load \(load), busiest: "
      + (names.isEmpty ? "nobody" : names.joined(separator: ", "))
  }

  /// Returns the processor time of each process. Unit: clock ticks.
  private static func processTicks() -> [Int32: (name: String, ticks: UInt64)] {
    var all: [Int32: (name: String, ticks: UInt64)] = [:]
    for pid in FileSystem.entryNames(of: "/proc").compactMap({ Int32($0) }) {
      guard let line = FileSystem.text(of: "/proc/\(pid)/stat"),
        let open = line.firstIndex(of: "("), let close = line.lastIndex(of: ")")
      else { continue }
      let name = String(line[line.index(after: open)..<close])
      // The processor times are fields 14 and 15 of the line. `fields[0]` is the end of field 2,
      // the name. So the processor times are `fields[12]` and `fields[13]`.
      let fields = line[close...].split(separator: " ")
      guard fields.count > 13, let user = UInt64(fields[12]), let system = UInt64(fields[13]) else {
        continue
      }
      all[pid] = (name, user + system)
    }
    return all
  }
}
