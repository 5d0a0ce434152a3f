import Glibc
import PipeRuntime
import PipeSystem

/// The processor use of a process, separated by thread.
struct ProcessorUse {
  /// The processor use of a thread.
  struct ThreadUse {
    /// The processor time on all cores. Unit: seconds.
    var time = 0.0
    /// The number of voluntary context switches: the thread yielded its core in order to wait. A
    /// wake-up follows each of them.
    var switches = 0.0
  }

  /// The processor use of the main thread, of libzmq's I/O thread, and of all other threads
  /// together.
  private(set) var usesByThread: [Thread: ThreadUse] = [:]

  enum Thread: String, CaseIterable { case main, io = "I/O", others }

  static let none = ProcessorUse()

  private init() {}

  /// Reads the processor use of a process since its start. If the process has ended, the use is
  /// zero.
  init(of pid: Int32) {
    for thread in FileSystem.entryNames(of: "/proc/\(pid)/task") {
      let folder = "/proc/\(pid)/task/\(thread)/"
      let name = HostMachine.text(of: folder + "comm")
      let role: Thread =
        Int32(thread) == pid ? .main : name.hasPrefix("ZMQbg/IO") ? .io : .others
      let words = HostMachine.text(of: folder + "schedstat").split(separator: " ")
      let line = HostMachine.text(of: folder + "status").split(separator: "\n")
        .first { $0.hasPrefix("voluntary_ctxt_switches:") }
      usesByThread[role, default: ThreadUse()].time +=
        (words.first.flatMap { Double($0) } ?? 0) / 1e9
      usesByThread[role, default: ThreadUse()].switches +=
        line?.split(whereSeparator: \.isWhitespace).last.flatMap { Double($0) } ?? 0
    }
  }

  /// The processor use of all threads together.
  var total: ThreadUse {
    usesByThread.values.reduce(into: ThreadUse()) { sum, threadUse in
      sum.time += threadUse.time
      sum.switches += threadUse.switches
    }
  }

  /// Returns the processor use since an earlier sample, divided by a number of operations.
  func perOperation(of count: Int, since earlier: ProcessorUse) -> ProcessorUse {
    var result = self
    for (thread, threadUse) in usesByThread {
      let before = earlier.usesByThread[thread] ?? ThreadUse()
      result.usesByThread[thread] = ThreadUse(
        time: (threadUse.time - before.time) / Double(count),
        switches: (threadUse.switches - before.switches) / Double(count))
    }
    return result
  }
}

extension ProcessorUse: CustomStringConvertible {
  /// The processor use by thread. Threads that did almost nothing are omitted.
  var description: String {
    let parts = Thread.allCases.compactMap { thread -> String? in
      guard let threadUse = usesByThread[thread],
        threadUse.time >= 1e-8 || threadUse.switches >= 0.005
      else { return nil }
      return "\(thread.rawValue) \(Quantity.seconds(threadUse.time)) and "
        + "\(threadUse.switches.fixed(2)) switches"
    }
    return parts.isEmpty ? "nothing" : parts.joined(separator: ", ")
  }
}

/// The processor use of a process in several measurements.
struct ProcessorUses {
  private var times = Samples()
  private var switches = Samples()
  private(set) var last = ProcessorUse.none

  mutating func add(_ use: ProcessorUse) {
    times.add(use.total.time)
    switches.add(use.total.switches)
    last = use
  }

  /// The median processor time per operation. Unit: seconds.
  var time: Quantity { .seconds(times.median) }
  /// The median number of voluntary context switches per operation.
  var switchCount: Quantity { .count(switches.median) }
}

extension Report {
  /// Adds the processor use per operation of a process.
  /// - Parameter baseline: The processor use of a raw peer.
  mutating func add(_ uses: ProcessorUses, of operation: String, baseline: ProcessorUses? = nil) {
    add(
      Figure(
        name: "processor time of \(operation)", value: uses.time, baseline: baseline?.time))
    add(
      Figure(
        name: "voluntary switches of \(operation)", value: uses.switchCount,
        baseline: baseline?.switchCount))
    note("by thread: \(uses.last)")
  }
}

/// Runs asynchronous calls in measurements, which block their thread.
enum Blocking {
  /// Runs an operation, and blocks this thread until the operation is complete. The thread must not
  /// belong to a task.
  static func run<Value: Sendable, Failure>(
    _ operation: @escaping @Sendable () async throws(Failure) -> Value
  ) throws(Failure) -> Value {
    let outcome = Locked<Result<Value, Failure>?>(nil)
    let done = Semaphore()
    Task {
      let result: Result<Value, Failure>
      do throws(Failure) {
        result = .success(try await operation())
      } catch {
        result = .failure(error)
      }
      outcome.withLock { $0 = result }
      done.signal()
    }
    while true {
      done.wait()
      if let result = outcome.withLock({ $0 }) { return try result.get() }
    }
  }
}
