import Glibc
import PipeRuntime
import Testing

extension Trait where Self == ConditionTrait {
  /// A condition that skips the test, with a reason, if the CPU time of processes cannot be
  /// limited.
  static var needsProcessorQuota: Self {
    .enabled(
      if: ProcessorQuota.isAvailable,
      "needs root, and a control group that may limit processor time")
  }
}

/// A control group whose processes get one millisecond of CPU time per second.
///
/// A container with a small limit has the same effect.
struct ProcessorQuota {
  private static let root =
    FileSystem.isDirectory("/sys/fs/cgroup/cpu") ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup"

  /// Whether a group can be created.
  static let isAvailable: Bool = {
    guard let quota = try? ProcessorQuota() else { return false }
    quota.remove()
    return true
  }()

  private let path: String

  init() throws {
    path = Self.root + "/prt-\(UInt64.random(in: 0...UInt64.max))"
    guard mkdir(path, 0o755) == 0 else { throw SystemError("mkdir", on: path, code: errno) }
    do {
      if FileSystem.exists(path + "/cpu.max") {
        try write("1000 1000000", to: "cpu.max")
      } else {
        try write("1000000", to: "cpu.cfs_period_us")
        try write("1000", to: "cpu.cfs_quota_us")
      }
    } catch {
      remove()
      throw error
    }
  }

  /// Limits a process.
  func add(_ pid: Int32) throws { try write("\(pid)", to: "cgroup.procs") }

  /// Removes the group. Precondition: its processes have ended, or were moved back to the root
  /// group.
  func remove() { rmdir(path) }

  /// Moves a process back to the root group.
  func free(_ pid: Int32) throws { try Self.write("\(pid)", to: Self.root + "/cgroup.procs") }

  private func write(_ text: String, to file: String) throws {
    try Self.write(text, to: path + "/" + file)
  }

  private static func write(_ text: String, to path: String) throws {
    let descriptor = open(path, O_WRONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    try FileSystem.write(Array(text.utf8), to: descriptor, path: path)
  }

  /// Returns how long the main thread of a process has waited for a processor. Unit: seconds.
  static func waitingTime(of pid: Int32) -> Double {
    let words = FileSystem.text(of: "/proc/\(pid)/schedstat")?.split(separator: " ") ?? []
    return words.count > 1 ? (Double(words[1]) ?? 0) / 1e9 : 0
  }
}
